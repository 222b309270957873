//! The workloads: what each needs, what is there before it runs, and the script that runs.

use super::{Workload, check};

const GIT: &str = "git() { command git -c init.defaultBranch=main -c user.name=a -c user.email=a@example.org -c gc.auto=0 \"$@\"; }\n";

/// A repository with two commits, whose index is younger than its files by more than git's doubt: git reads files again
/// that are as old as the index, which is another behaviour.
const REPOSITORY: &str =
    "mkdir src; cd src; git init -q; for i in 1 2 3; do echo $i > f$i; done; git add .; git commit -qm one
echo 4 > f4; git add .; git commit -qm two; touch -d 2020-01-01 f*; git status -s; cd ..
";

/// After a commit git guesses how many loose objects there are by listing `objects/17`, where there is one: the commit's
/// hash, and so its time, decides.
pub const LOOSE_OBJECTS: (&str, &str) = ("list", "${WORKDIR}/src/.git/objects/${HASH}");

/// git reads a file again that is as old as its index to the second: what it checked out in the second before the one
/// in which it wrote the index, it need not read.
pub const AS_OLD_AS_THE_INDEX: [(&str, &str); 5] = [
    LOOSE_OBJECTS,
    ("read", "${WORKDIR}/wt/f1"),
    ("read", "${WORKDIR}/wt/f2"),
    ("read", "${WORKDIR}/wt/f3"),
    ("read", "${WORKDIR}/wt/f4"),
];

/// Where a process of the host belongs to a user that `/etc/passwd` does not know, `ps` asks the next source of names.
pub const UNKNOWN_USERS: [(&str, &str); 2] = [
    ("read", "/usr/lib/x86_64-linux-gnu/libnss_systemd.so.2"),
    ("read", "/usr/lib/x86_64-linux-gnu/libm.so.6"),
];

/// glibc's malloc asks for the number of processors when a thread finds every arena taken: whether threads meet decides.
pub const PROCESSORS: (&str, &str) = ("read", "/sys/devices/system/cpu/online");

const PROGRAM: &str = "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");return 0;}\\n' > a.c\n";

fn joined(parts: &[&str]) -> String {
    parts.concat()
}

/// A test for each workload: what it needs, what is prepared before the run, the script that runs, and what may differ.
macro_rules! workloads {
    ($($name:ident: [$($program:literal),*], [$($before:expr),*], $script:expr $(, varies $varies:expr)?;)*) => {
        $(#[test]
        fn $name() {
            check(&Workload {
                name: stringify!($name),
                programs: &[$($program),*],
                before: joined(&[$($before),*]),
                script: $script,
                may_vary: workloads!(@varies $($varies)?),
            });
        })*
    };
    (@varies) => { &[] };
    (@varies $varies:expr) => { &$varies };
}

workloads! {
    nothing: [], [], "true";
    // git
    git_clone: ["git"], [GIT, REPOSITORY], "git clone -q src dst";
    git_clone_by_protocol: ["git"], [GIT, REPOSITORY], "git clone -q \"file://$PWD/src\" dst; git clone -q --bare src b.git";
    git_commit: ["git"], [GIT, REPOSITORY],
        "cd src; echo z > f1; git -c user.name=a -c user.email=a@example.org commit -qam three",
        varies [LOOSE_OBJECTS];
    git_rebase: ["git"], [GIT, REPOSITORY,
        "cd src; git checkout -q -b b HEAD~1; echo q > q; git add q; git commit -qm q; touch -d 2020-01-01 f* q; git status -s"],
        "cd src; git -c user.name=a -c user.email=a@example.org rebase -q main",
        varies [LOOSE_OBJECTS, ("read", "${WORKDIR}/src/f4")];
    git_worktree: ["git"], [GIT, REPOSITORY],
        "cd src; git worktree add -q ../wt; cd ../wt; echo 1 > n; git add n; git -c user.name=a -c user.email=a@example.org commit -qm n",
        varies AS_OLD_AS_THE_INDEX;
    git_gc: ["git"], [GIT, REPOSITORY], "cd src; git gc -q";
    git_stash: ["git"], [GIT, REPOSITORY],
        "cd src; echo z > f2; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; git stash -q; git stash pop -q";
    // Compilers
    gcc: ["gcc"], [PROGRAM], "gcc a.c -o a; ./a > out";
    gcc_with_pipes: ["gcc"], [PROGRAM], "gcc -pipe a.c -o a";
    gcc_with_lto: ["gcc"], [PROGRAM], "gcc -O2 -flto a.c -o a";
    archive_and_strip: ["gcc", "ar"], [PROGRAM], "gcc -c a.c; ar rcs liba.a a.o; gcc a.o -o a; install -s a b";
    make_parallel: ["make", "gcc"], [PROGRAM, "printf 'all: a b c d\\na b c d: a.c\\n\\tgcc a.c -o $@\\n' > Makefile"],
        "make -s -j4";
    cargo_build: ["cargo"], ["cargo new -q --vcs none app"], "cd app; cargo build --offline -q";
    cargo_test: ["cargo"], ["cargo new -q --vcs none --lib app"], "cd app; cargo test --offline -q > /dev/null";
    // Python
    python_venv: ["python3"], [], "python3 -m venv --without-pip v";
    pip_from_a_wheel: ["python3"], ["python3 -m venv v
cat > w.py <<'E'
import zipfile
with zipfile.ZipFile('one-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('one.py', 'x = 1\\n')
    wheel.writestr('one-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: one\\nVersion: 1.0\\n')
    wheel.writestr('one-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: us\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('one-1.0.dist-info/RECORD', 'one.py,,\\none-1.0.dist-info/METADATA,,\\none-1.0.dist-info/WHEEL,,\\none-1.0.dist-info/RECORD,,\\n')
E
python3 w.py"],
        "v/bin/pip install -q --no-index --disable-pip-version-check ./one-1.0-py3-none-any.whl; v/bin/python -c 'import one'";
    pytest_with_tmp_path: ["pytest"], ["cat > test_a.py <<'E'
import tempfile
def test_one(tmp_path):
    (tmp_path / 'a').write_text('1')
def test_two(tmp_path, tmp_path_factory):
    (tmp_path_factory.mktemp('more') / 'b').write_text('1')
    with tempfile.TemporaryDirectory(prefix='own') as place:
        open(place + '/c', 'w').close()
E"], "pytest -q test_a.py > /dev/null";
    python_temporary_files: ["python3"], ["cat > s.py <<'E'
import os, tempfile, uuid
f = tempfile.NamedTemporaryFile(); f.write(b'x'); f.flush()
d = tempfile.mkdtemp()
open(d + '/a', 'w').close()
tempfile.mkdtemp(prefix='glued')
tempfile.mkdtemp(prefix='my_app_')
tempfile.NamedTemporaryFile(prefix='with-', suffix='.tar.gz')
open(str(uuid.uuid4()) + '.cache', 'w').close()
E"], "python3 s.py";
    caches_named_by_uuid_and_hash: ["python3"], ["cat > s.py <<'E'
import hashlib, os, uuid
os.makedirs('.cache/blobs')
for number in range(4):
    text = f'{uuid.uuid4()}'.encode()
    open('.cache/' + str(uuid.uuid4()), 'wb').write(text)
    digest = hashlib.sha256(text).hexdigest()
    os.makedirs(f'.cache/blobs/{digest[:2]}', exist_ok=True)
    temporary = f'.cache/blobs/{digest[:2]}/{digest}.{os.getpid()}.tmp'
    open(temporary, 'wb').write(text)
    os.replace(temporary, f'.cache/blobs/{digest[:2]}/{digest}')
E"], "python3 s.py";
    python_compiled_in_parallel: ["python3"], ["mkdir p; for i in 1 2 3 4 5 6; do echo \"x = $i\" > p/m$i.py; done"],
        "python3 -m compileall -q -j 2 p";
    python_pool: ["python3"], ["cat > s.py <<'E'
import multiprocessing, os
def work(number):
    open(f'o{number}', 'w').close()
    return number
if __name__ == '__main__':
    with multiprocessing.Pool(3) as pool:
        pool.map(work, range(9), 1)
    queue = multiprocessing.SimpleQueue()
    child = multiprocessing.Process(target=queue.put, args=(1,))
    child.start(); queue.get(); child.join()
E"], "python3 s.py";
    eight_threads: ["python3"], ["cat > t.py <<'E'
import tempfile, threading
def work(number):
    for turn in range(20):
        open(f'o{number}', 'a').close()
        with tempfile.TemporaryFile() as file:
            file.write(b'1')
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
E"], "python3 t.py";
    // Networks
    sockets_on_ports_of_the_kernels_choice: ["python3"], ["cat > s.py <<'E'
import socket
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)
k = socket.create_connection(s.getsockname()); k.send(b'x'); s.accept()
u = socket.socket(2, 2); u.bind(('127.0.0.1', 0))
v = socket.socket(2, 2); v.sendto(b'x', u.getsockname())
data, peer = u.recvfrom(9); u.sendto(b'y', peer)
E"], "python3 s.py";
    web_server_and_client: ["python3", "curl"], ["cat > s.py <<'E'
import functools, http.server, threading
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='d')
server = http.server.HTTPServer(('127.0.0.1', 0), handler)
with open('port.new', 'w') as file: file.write(str(server.server_port))
import os; os.rename('port.new', 'port')
server.handle_request()
E
mkdir d; echo hi > d/page"],
        "python3 s.py 2> /dev/null & while ! [ -e port ]; do sleep 0.05; done; curl -s -o got \"http://127.0.0.1:$(cat port)/page\"; wait; cmp got d/page";
    ssh_agent: ["ssh-agent", "ssh-keygen", "ssh-add"], ["ssh-keygen -q -t ed25519 -N '' -f k"],
        "eval $(ssh-agent) > /dev/null; ssh-add -q k; ssh-agent -k > /dev/null";
    runtime_directory: ["python3"], ["mkdir -m 700 $XDG_RUNTIME_DIR/there; echo 1 > $XDG_RUNTIME_DIR/there/settings; cat > s.py <<'E'
import getpass, os, socket, tempfile
place = os.environ['XDG_RUNTIME_DIR']
own = place + '/app-' + getpass.getuser()
os.mkdir(own, 0o700)
server = socket.socket(socket.AF_UNIX); server.bind(f'{own}/{os.getpid()}.sock'); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(server.getsockname())
open(place + '/there/settings').read()
open(place + '/there/settings', 'a').close()
with open(own + '/state.new', 'w') as file: file.write('1')
os.rename(own + '/state.new', own + '/state')
tempfile.TemporaryDirectory(prefix='word', dir=place).cleanup()
open(own + '/' + place.replace('/', '%') + '%settings.swp', 'w').close()
E"], "python3 s.py";
    // Databases
    sqlite_with_a_journal: ["python3"], ["cat > q.py <<'E'
import sqlite3
c = sqlite3.connect('t.db'); c.execute('create table t(a)'); c.execute('insert into t values(1)'); c.commit()
E"], "python3 q.py";
    sqlite_with_a_log: ["sqlite3"], [],
        "sqlite3 t.db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2); select * from t order by a; vacuum' > /dev/null";
    // Names of every kind
    names_by_user_id: [], [],
        "d=$TMPDIR/agent-$(id -u); mkdir -m 700 \"$d\"; echo 1 > \"$d/state\"; mkdir \"$TMPDIR/tmux-$(id -u)\"; cat \"$d/state\" > \"$TMPDIR/tmux-$(id -u)/default\"
ln -s \"$d\" \"$TMPDIR/own-$(id -u).link\"; rm -r \"$d\"; rmdir \"$(mktemp -d \"$TMPDIR/of-$(id -un)-$(id -u).XXXXXX\")\"; echo 2 > rack12row3; mkdir \"$TMPDIR/fy\"; echo 3 > \"$TMPDIR/fy/FY2025Q1\"";
    temporary_names: ["mktemp"], [],
        "f=$(mktemp -p . foo.XXXXXX); echo x > $f; rm $f; d=$(mktemp -d); touch $d/x; mktemp > /dev/null; mktemp -d -t my_XXXXXXXX > /dev/null";
    lock_with_a_process_id: [], [], "echo $$ > lock.$$; mv lock.$$ lock; rm lock; echo $$ > run.pid; (echo x > part.$$)";
    lock_by_flock: ["flock"], [], "flock lock sh -c 'echo $$ > held.$$; mv held.$$ held'; ln -s $$ .l.$$; ln -s \"$(hostname).$$\" .lock; rm .l.$$";
    names_by_time: ["date"], [], "echo x > run-$(date +%Y%m%d-%H%M%S).log; echo y > $(date +%s).tmp; rm ./*.tmp; mkdir $(date +%F); touch $(date +%F)/a";
    // Files
    edit_in_place: ["sed"], ["printf 'a\\nb\\n' > f; cp f g"], "sed -i s/a/c/ f; perl -pi -e s/b/d/ g";
    edit_by_vi: ["vi"], ["printf 'a\\nb\\n' > f"], "vi -es -u NONE -c 'set backup' -c '%s/a/c/' -c wq f";
    patch: ["patch"], ["printf 'a\\nb\\n' > f; cp f g; printf 'a\\nc\\n' > h; diff -u f h > d || true"], "patch -s f d; patch -s -b g d";
    pipes: ["sort", "awk"], [], "ls / | sort | awk '{print NR}' > n; cat <<E\nhi\nE\n";
    pipes_of_bash: ["bash"], [], "bash -c 'cat <<< hi > a; diff <(echo 1) <(echo 1); read x < <(echo y); echo $x > b'";
    parallel_by_xargs: ["xargs"], [], "seq 20 | xargs -P 4 -I {} sh -c 'echo {} > o{}; echo $$ > p.$$.tmp; rm p.$$.tmp'";
    sort_on_disk: ["sort"], ["seq 100000 > f"], "sort -S 1M f > g";
    tar_unpack: ["tar"], ["mkdir d; for i in 1 2 3; do echo $i > d/$i; done; tar czf d.tar d; rm -r d"], "tar xf d.tar";
    zip_update: ["zip", "unzip"], ["mkdir d; for i in 1 2 3; do echo $i > d/$i; done"], "zip -qr d.zip d; echo 4 > d/4; zip -qr d.zip d; unzip -q d.zip -d e";
    copy_and_delete: ["cp", "find"], ["mkdir d; for i in 1 2 3; do echo $i > d/$i; done"], "cp -a d e; find d -delete";
    rsync_archive: ["rsync"], ["mkdir d; for i in 1 2 3; do echo $i > d/$i; done; touch -d 2020-01-01 d"], "rsync -a d/ e/";
    process_list: ["ps"], [], "ps aux > /dev/null",
        varies UNKNOWN_USERS;
    // Keys
    ssh_key: ["ssh-keygen"], [], "ssh-keygen -q -t ed25519 -N '' -f k";
    gpg_key: ["gpg"], ["mkdir -m 700 g"],
        "gpg -q --homedir g --batch --passphrase '' --quick-gen-key a@example.org default default never 2> /dev/null; gpgconf --homedir g --kill all";
    gpg_with_a_passphrase: ["gpg"], ["mkdir -m 700 g; echo text > t"],
        "encrypted() { gpg -q --homedir g --batch --pinentry-mode loopback --passphrase xyzzy \"$@\"; }
encrypted -c t; encrypted -o u -d t.gpg; cmp t u; gpgconf --homedir g --kill all";
    openssl_certificate: ["openssl"], [],
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=a 2> /dev/null";
    // Other languages
    node_tests: ["node"], ["cat > a.test.js <<'E'
const fs = require('fs'), os = require('os'), path = require('path');
require('node:test')('x', () => {
  for (const prefix of ['foo-', 'glued', 'under_']) {
    const place = fs.mkdtempSync(path.join(os.tmpdir(), prefix));
    fs.writeFileSync(path.join(place, 'a'), '1');
    fs.rmSync(place, {recursive: true});
  }
});
E"], "node --test a.test.js > /dev/null";
    npm_install: ["npm"], ["mkdir p1 p2
printf '{\"name\":\"p1\",\"version\":\"1.0.0\",\"bin\":\"x.js\"}' > p1/package.json; echo '#!/usr/bin/env node' > p1/x.js
printf '{\"name\":\"p2\",\"version\":\"1.0.0\",\"scripts\":{\"postinstall\":\"echo built > built\"}}' > p2/package.json
printf '{\"name\":\"app\",\"version\":\"1.0.0\"}' > package.json; (cd p1; npm pack --silent > /dev/null)"],
        "npm install --silent --offline --no-audit --no-fund ./p1/p1-1.0.0.tgz ./p2",
        varies [PROCESSORS];
    perl_temporary_files: ["perl"], [],
        "perl -e 'use File::Temp qw(tempfile tempdir); tempfile(); my $d=tempdir(CLEANUP=>1); open(my $h,\">\",\"$d/a\"); tempfile(\"mine_XXXXX\", TMPDIR=>1, UNLINK=>1);'";
    // Packages and sandboxes
    deb_build: ["dpkg-deb"], ["mkdir -p one/DEBIAN one/usr/share/one; echo hi > one/usr/share/one/a
printf 'Package: one\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: one\\n' > one/DEBIAN/control"],
        "dpkg-deb --root-owner-group -b one one.deb > /dev/null; dpkg-deb -x one.deb x";
    apt_download: ["apt-get", "dpkg-deb"], ["mkdir -p one/DEBIAN repo s/lists/partial c/archives/partial e got
printf 'Package: one\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: one\\n' > one/DEBIAN/control
dpkg-deb --root-owner-group -b one repo/one_1.0_all.deb > /dev/null
{ cat one/DEBIAN/control; echo \"Filename: ./one_1.0_all.deb\"; echo \"Size: $(stat -c %s repo/one_1.0_all.deb)\"; echo \"SHA256: $(sha256sum repo/one_1.0_all.deb | cut -d' ' -f1)\"; } > repo/Packages
touch status; echo \"deb [trusted=yes] file:$PWD/repo ./\" > e/list
printf 'Dir::State \"%s/s\"; Dir::Cache \"%s/c\"; Dir::State::status \"%s/status\"; Dir::Etc::sourcelist \"%s/e/list\"; Dir::Etc::sourceparts \"-\";\\n' $PWD $PWD $PWD $PWD > conf"],
        "export APT_CONFIG=$PWD/conf; apt-get -qq update; cd got; apt-get -qq download one";
    bubblewrap: ["bwrap"], [],
        "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind \"$PWD\" \"$PWD\" sh -c 'echo hi > a; TMPDIR=/tmp mktemp > /dev/null'";
}
