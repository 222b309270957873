//! The oracle: strace and assay watch the same execution, and must tell the same.
//!
//! `assay sandbox --trace T -- strace -f -y -o S COMMAND`: everything that strace saw (files, programs, network; what
//! succeeded and what failed) must be in the trace with the path the kernel went to and its result, and nothing else
//! may be. `cargo xtask oracle` makes the table in `docs/oracle.md` from what these tests count.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::compare::{Tally, compare};
use crate::harness::expected::{CALLS, expected, threads};
use crate::harness::{strace, trace};
use crate::needs::{Need, are_met};

/// A folder for one line of the table a test.
const ROWS: &str = "ASSAY_ORACLE_ROWS";
/// When set, the folder of a failed comparison stays.
const KEEP: &str = "ASSAY_ORACLE_KEEP";

/// A real command: what must lie ready, and what is run.
struct Case {
    name: &'static str,
    programs: &'static [&'static str],
    /// Shell, run before and outside.
    before: &'static str,
    /// Shell, run under strace under assay.
    script: &'static str,
}

fn check(case: &Case) {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2, Need::Program("strace")];
    needs.extend(case.programs.iter().map(|program| Need::Program(program)));
    if !are_met(&format!("oracle::{}", case.name), &needs) {
        return;
    }
    let folder = tempfile::Builder::new().prefix("assay-oracle-").tempdir().expect("a folder");
    let base = folder.path().canonicalize().expect("its name");
    let work = base.join("work");
    fs::create_dir(&work).expect("a work folder");
    shell(&work, case.before);

    let tally = observe(case, &base, &work);
    row(case, &tally);
    let is_whole = tally.missing.is_empty() && tally.extra.is_empty() && tally.lost == 0;
    if !is_whole && std::env::var_os(KEEP).is_some() {
        println!("kept: {}", folder.keep().display());
    }
    assert!(tally.expected > 0, "strace saw nothing");
    assert!(is_whole, "{}", complaint(case, &tally));
}

/// The second witness, where there is one, tells the same of this workload.
fn check_witness(evidence: &Path) {
    let evidence: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(evidence).expect("the evidence")).expect("JSON");
    let observed = &evidence["observed"];
    let (word, counters) = (&observed["host"]["second_witness"], &observed["counters"]);
    if assay::host::hook_programs::obstacle().is_some() {
        assert!(word.as_str().expect("a word").starts_with("absent: "), "{word}");
        return;
    }
    println!(
        "second witness: {} agreed, {} unchecked",
        counters["witness.agreed"], counters["witness.unchecked"]
    );
    assert_eq!(word, "present");
    assert_eq!(counters["witness.disagreed"], 0, "{}", evidence["coverage"]);
    assert_eq!(counters["witness.lost"], 0, "{counters}");
    assert_eq!(counters["witness.unchecked"], 0, "{counters}");
    assert!(counters["witness.agreed"].as_u64().expect("a number") > 0, "{counters}");
}

fn shell(folder: &Path, script: &str) {
    let status = Command::new("sh").args(["-ec", script]).current_dir(folder).status().expect("a shell");
    assert!(status.success(), "what must lie ready could not be made: {script}");
}

fn observe(case: &Case, base: &Path, work: &Path) -> Tally {
    let (listing, traced, status) = (base.join("strace"), base.join("trace"), base.join("status"));
    let profile = base.join("run.profile.json");
    let output = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["sandbox", "--dry-run", "--descendants", "wait", "--trace"])
        .arg(&traced)
        // Where the kernel has one, it must agree too.
        .args(["--second-witness", "--profile-format", "json", "--profile"])
        .arg(&profile)
        .arg("--status-file")
        .arg(&status)
        .args(["--", "strace", "-f", "-y", "-q", "-s", "4096", "-e", "signal=none", "-e"])
        .arg(format!("trace={CALLS}"))
        .arg("-o")
        .arg(&listing)
        .args(["sh", "-ec", case.script])
        .current_dir(work)
        .stdin(Stdio::null())
        .output()
        .expect("assay");
    let told = fs::read_to_string(&status).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    // 4: the built-in policy would not have allowed all of it, which is not what is asked here.
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "assay ended with {}:\n{said}\n{told}",
        output.status
    );
    assert!(
        told.replace(' ', "").contains("\"child\":{\"exit_code\":0}"),
        "the command did not succeed under observation: {told}\n{said}"
    );

    check_witness(&profile.with_extension("evidence.json"));
    let listing = fs::read_to_string(&listing).expect("what strace wrote is ASCII");
    let events = strace::events(&listing).expect("a listing that is understood");
    let calls = expected(&events, work.as_os_str().as_bytes()).expect("calls that are understood");
    let trace = trace::read(&fs::read_to_string(&traced).expect("a trace")).expect("a trace that is whole");
    compare(&trace, &calls, &threads(&events))
}

fn row(case: &Case, tally: &Tally) {
    let Some(folder) = std::env::var_os(ROWS) else { return };
    let not_asked: usize = tally.not_asked.values().sum();
    let line = format!(
        "| {} | {} | {} | {} | {} | {} | {} | {not_asked} |\n",
        case.name,
        tally.expected,
        tally.matched,
        tally.missing.len(),
        tally.extra.len(),
        tally.lost,
        tally.strace
    );
    fs::write(Path::new(&folder).join(case.name), line).expect("a row of the table");
}

fn complaint(case: &Case, tally: &Tally) -> String {
    let mut text = format!(
        "{}: of {} calls {} are told as they were; {} lines have no call; {} lost\n",
        case.name,
        tally.expected,
        tally.matched,
        tally.extra.len(),
        tally.lost
    );
    for (word, lines) in [("missing", &tally.missing), ("extra", &tally.extra)] {
        for line in lines.iter().take(12) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {word}: {line}");
        }
        if lines.len() > 12 {
            let _ = writeln!(text, "  {word}: … and {} more", lines.len() - 12);
        }
    }
    text
}

/// One test a case, named like it.
macro_rules! cases {
    ($($name:ident, $programs:expr, $before:expr, $script:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check(&Case { name: stringify!($name), programs: &$programs, before: $before, script: $script });
            }
        )*
    };
}

cases! {
    git_clone_and_commit, ["git"],
        "git init -q src && cd src && for i in 1 2 3 4 5; do echo $i > f$i; done && git add . \
         && git -c user.name=a -c user.email=a@example.org commit -qm one",
        "git clone -q src dst && cd dst && echo more >> f1 && git rm -q f2 \
         && git -c user.name=a -c user.email=a@example.org commit -qam two && git log --oneline | cat";
    tar_pack_and_unpack, ["tar", "gzip"],
        "mkdir -p tree/a/b && for i in 1 2 3 4 5 6 7 8; do echo $i > tree/a/f$i; done && ln -s f1 tree/a/l && ln tree/a/f2 tree/a/b/h",
        "tar czf t.tgz tree && mkdir out && tar xzf t.tgz -C out";
    cp_archive, ["cp"],
        "mkdir -p tree/a/b && for i in 1 2 3 4 5; do echo $i > tree/a/f$i; done && ln -s ../a tree/a/b/up && mkfifo tree/p && chmod 750 tree/a",
        "cp -a tree copy";
    find_delete, ["find"],
        "mkdir -p d/e/f && for i in 1 2 3 4 5 6 7 8 9; do : > d/$i.o; : > d/e/f/$i.o; : > d/$i.c; done",
        "find d -name '*.o' -delete && rm -r d";
    sed_in_place, ["sed"],
        "for i in 1 2 3; do echo hello > $i.txt; done && ln -s 1.txt link",
        "sed -i s/hello/bye/ 1.txt 2.txt 3.txt && sed -i.bak s/bye/hi/ 1.txt && sed -i --follow-symlinks s/hi/ho/ link";
    gcc_compile_and_run, ["gcc"],
        "printf '#include <stdio.h>\\nint main(void){puts(\"x\");return 0;}\\n' > a.c",
        "gcc -O1 -o a a.c && ./a";
    make_parallel, ["make", "gcc"],
        "for i in 1 2 3 4 5 6; do echo \"int f$i(void){return $i;}\" > f$i.c; done; echo 'int main(void){return 0;}' > m.c; \
         printf 'O=f1.o f2.o f3.o f4.o f5.o f6.o m.o\\nall: $(O)\\n\\tgcc -o all $(O)\\n%%.o: %%.c\\n\\tgcc -c -o $@ $<\\n' > Makefile",
        "make -j4";
    cargo_build_offline, ["cargo"],
        "mkdir -p src && printf '[package]\\nname=\"x\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n[workspace]\\n' > Cargo.toml && echo 'fn main(){}' > src/main.rs",
        "cargo build --offline -q && ./target/debug/x";
    python_venv, ["python3"],
        "",
        "python3 -m venv --without-pip v && ./v/bin/python -c 'import json, os; json.dump(sorted(os.listdir(\"v\")), open(\"l\", \"w\"))'";
    http_server_and_client, ["python3", "curl"],
        "echo page > page.txt",
        "python3 -u -m http.server 0 --bind 127.0.0.1 > log 2>&1 & server=$!\n\
         until grep -q 'port [0-9]' log; do sleep 0.1; done\n\
         curl -sS -o got http://127.0.0.1:$(sed -n 's/.*port \\([0-9]*\\).*/\\1/p' log)/page.txt\n\
         kill $server; wait $server || true; cmp got page.txt";
    node_script, ["node"],
        "",
        "node -e 'const fs = require(\"fs\"); fs.mkdirSync(\"d\"); fs.writeFileSync(\"d/a\", \"x\"); fs.renameSync(\"d/a\", \"d/b\"); \
         fs.symlinkSync(\"b\", \"d/l\"); require(\"child_process\").execFileSync(\"ls\", [\"d\"]); fs.rmSync(\"d\", {recursive: true});'";
    sqlite_database, ["sqlite3"],
        "",
        "sqlite3 db 'create table t(a); begin; insert into t values(1),(2); commit; pragma journal_mode=wal; insert into t values(3); vacuum;'";
    ssh_keygen, ["ssh-keygen"],
        "",
        "ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -lf key.pub";
    rsync_archive, ["rsync"],
        "mkdir -p a/b && for i in 1 2 3 4; do echo $i > a/b/$i; done && ln -s b a/l",
        "rsync -a a/ c && echo new > a/b/1 && rsync -a --delete a/ c";
    shell_pipes, ["awk", "sort"],
        "for i in 3 1 2; do echo $i > $i.txt; done",
        "cat *.txt | sort | tee sorted | while read n; do echo $((n * 2)); done | awk '{s += $1} END {print s}' > sum; \
         (cd / && ls | wc -l) > count; for f in *.txt; do mv $f $f.old; done; test $(cat sum) = 12; \
         cat <<END | grep -c x > here || true\nx\nEND\nset -- $(ls | tr '\\n' ' '); echo $# > n";
    coreutils_on_names, ["truncate", "mkfifo", "install"],
        "mkdir -p real && ln -s real via && echo x > file && chmod 600 file",
        "touch via/a && ln file via/hard && ln -s ../file via/soft && truncate -s 100 via/soft && chmod 640 via/soft && chown 1:1 file \
         && chown -h 2:2 via/soft && mkfifo via/p && mkdir -p via/x/y/z && rmdir via/x/y/z && mv -T via/x via/renamed && install -m 755 file via/bin \
         && touch -d 2020-01-01 via/a && cp --reflink=auto file 'via/a name' && ! cat via/none && ! mkdir real && ! rmdir via && unlink via/hard";
    unix_and_udp_sockets, ["python3"],
        "",
        "python3 -c 'import socket, os\n\
         s = socket.socket(socket.AF_UNIX); s.bind(\"sock\"); s.listen(1)\n\
         c = socket.socket(socket.AF_UNIX); c.connect(\"sock\"); c.sendall(b\"x\")\n\
         a = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); a.bind(\"\\0assay-oracle-%d\" % os.getpid())\n\
         b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); b.sendto(b\"y\", \"\\0assay-oracle-%d\" % os.getpid())\n\
         u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((\"127.0.0.1\", 0))\n\
         v = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); v.sendto(b\"z\", (\"::ffff:127.0.0.1\", u.getsockname()[1]))\n\
         t = socket.socket(); print(t.connect_ex((\"127.0.0.1\", 1)))\n\
         print(socket.getaddrinfo(\"localhost\", 80))\n\
         m = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); m.sendmsg([b\"q\"], [], 0, u.getsockname())'";
    python_threads_and_processes, ["python3"],
        "mkdir d && for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; done",
        "python3 -c 'import threading, os, subprocess, multiprocessing as m\n\
         def f(i):\n\
         \tfor k in range(20): open(\"d/%d\" % (i % 8 + 1)).read()\n\
         t = [threading.Thread(target=f, args=(i,)) for i in range(4)]\n\
         [x.start() for x in t]; [x.join() for x in t]\n\
         with m.get_context(\"fork\").Pool(3) as p: p.map(f, range(6))\n\
         os.chdir(\"d\"); os.rename(\"1\", \"one\"); subprocess.run([\"cat\", \"one\"], cwd=\"..\", stderr=subprocess.DEVNULL)'";
    names_and_links_of_every_kind, ["python3"],
        "",
        "cat > act.py <<'END'\n\
         import os, ctypes, sys\n\
         def t(f, *a, **k):\n\
         \ttry: return f(*a, **k)\n\
         \texcept OSError as e: return -e.errno\n\
         os.mkdir('real'); os.symlink('real', 'l1'); os.symlink('l1', 'l2'); os.symlink('../real/../l2', 'real/up'); os.symlink('loop', 'loop')\n\
         odd = [b'new\\nline', b'tab\\t', b'\\xff\\xfe', b'quo\"te', b'back\\\\slash', 'é日本'.encode(), b' sp ace ', b'${HOME}', b'(deleted)', b'x (deleted)', b'\\x1b[31m', b'n' * 255]\n\
         for n in odd:\n\
         \twith open(b'l2/' + n, 'wb') as f: f.write(b'x')\n\
         \tos.rename(b'real/up/' + n, b'l1/r'); os.chmod('l2/r', 0o600); os.unlink(b'real/./../l1/r')\n\
         t(os.open, 'loop', 0); t(os.open, 'l2/none/../x', 0); t(os.mkdir, 'l2'); t(os.mkdir, b'n' * 256); t(os.open, 'real/', os.O_CREAT | os.O_RDWR); t(os.rmdir, 'l1/..'); t(os.unlink, '.'); t(os.unlink, '')\n\
         deep = '/'.join(['d%03d' % i for i in range(200)])\n\
         os.makedirs('l2/' + deep); open('l1/' + deep + '/leaf', 'w').close(); here = os.getcwd(); os.chdir('l2/' + deep); os.mkdir('below'); os.rmdir('../d199/below'); os.unlink('leaf'); os.chdir(here)\n\
         long = os.getcwd() + '/l2/' + '/'.join(['p' * 100] * 12); os.makedirs(long); open(long + '/f', 'w').close(); os.truncate(long + '/f', 5); os.utime(long + '/f')\n\
         d = os.open('l2', os.O_RDONLY | os.O_DIRECTORY); os.mkdir('at', dir_fd=d); os.rename('at', 'at2', src_dir_fd=d, dst_dir_fd=d); os.link('up', 'hard', src_dir_fd=d, dst_dir_fd=d, follow_symlinks=False); os.symlink('any thing', 'sym', dir_fd=d); os.rmdir('at2', dir_fd=d)\n\
         os.chown('sym', 3, 3, dir_fd=d, follow_symlinks=False); os.utime('sym', dir_fd=d, follow_symlinks=False); os.fchmod(d, 0o755)\n\
         f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.ftruncate(f, 7); libc = ctypes.CDLL(None, use_errno=True); libc.linkat(-100, b'/proc/self/fd/%d' % f, -100, b'l2/from-tmpfile', 0x400)\n\
         g = os.open('l1/from-tmpfile', os.O_RDONLY); os.unlink('l2/from-tmpfile'); t(os.fchmod, g, 0o640); os.open('/proc/self/fd/%d' % g, os.O_RDONLY); os.open('/proc/self/cwd/real', os.O_RDONLY)\n\
         open('a', 'w').close(); open('b', 'w').close(); libc.renameat2(-100, b'a', -100, b'l2/../b', 2); t(os.rename, 'a', 'real'); t(os.link, 'a', 'b'); t(os.link, 'a', '/dev/shm/x'); t(os.rename, 'a', '/proc/x')\n\
         t(os.setxattr, 'l2/from', 'user.a', b'x'); t(os.setxattr, 'a', 'user.a', b'x'); t(os.removexattr, 'a', 'user.a'); t(os.removexattr, 'a', 'user.b'); os.mkfifo('l2/fifo'); os.mknod('l2/node'); t(os.mknod, 'a')\n\
         os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); t(os.open, 'x', os.O_CREAT); t(os.mkdir, 'y'); os.chdir('..')\n\
         m = os.memfd_create('mem'); os.write(m, open('/bin/true', 'rb').read()); os.lseek(m, 0, 0)\n\
         p = os.fork()\n\
         if p == 0: os.execve(m, ['mem'], {})\n\
         os.waitpid(p, 0)\n\
         os.symlink('/bin/true', 'prog'); os.spawnv(os.P_WAIT, 'l2/../prog', ['prog', 'x' * 5000]); t(os.execv, 'real', ['real']); t(os.execv, 'a', ['a'])\n\
         END\n\
         python3 act.py";
    mounts_and_roots, ["unshare", "mount", "chroot", "busybox"],
        "mkdir -p root/bin root/lib64 root/usr/lib root/dir tree/sub && echo x > tree/sub/f && ln -s /dir root/to-dir && ln -s ../../etc root/dir/out \
         && cp /bin/busybox root/bin/busybox",
        "unshare -Urm sh -ec 'mount --bind tree root/dir; cat root/dir/sub/f; echo y > root/dir/sub/g; mount -t tmpfs none tree/sub; echo z > tree/sub/new; \
         chroot root /bin/busybox sh -c \"cd /to-dir/sub; cat f; echo w > ../h; mkdir /to-dir/sub/k; mv /dir/h ../../moved; rm /to-dir/../moved; ! cat /out\"; umount tree/sub; umount root/dir'";
    scripts_and_interpreters, ["python3", "env"],
        "printf '#!/bin/sh\\necho a\\n' > a.sh && printf '#!/usr/bin/env sh\\n./a.sh\\n' > b.sh && chmod +x a.sh b.sh && ln -s b.sh c && : > none && printf 'echo no line\\n' > d.sh && chmod +x d.sh",
        "./a.sh; ./c; ./d.sh; ! ./none; ! ./missing; exec ./b.sh";
}
