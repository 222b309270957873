//! Whether what the plan says is held is held, by doing it.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use crate::confined::{Scene, mounts_outside, plan_of};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::CgroupV2, Need::LandlockAbi(7), Need::Program("python3")];

const OPEN_WORKDIR: &str = "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}]";

#[test]
fn ordinary_programs_work_under_the_built_in_policy() {
    if !are_met("ordinary_programs_work_under_the_built_in_policy", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/bin/hello", "#!/bin/sh\necho hello from $0\n");
    fs::set_permissions(scene.path("w/bin/hello"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    std::os::unix::fs::symlink("/bin/sh", scene.path("w/bin/interpreter")).unwrap();
    let linked = format!("#!{}\necho linked\n", scene.path("w/bin/interpreter").display());
    scene.file("w/bin/linked", &linked);
    fs::set_permissions(scene.path("w/bin/linked"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let policy = scene.builtin();
    let check = |script: &str, want: &[&str]| assert_eq!(scene.lines(&policy, script), want, "{script}");
    check("bash -c true && echo ok", &["ok"]);
    check("echo x >/dev/null && head -c2 /dev/zero | wc -c && head -c2 /dev/urandom | wc -c", &["2", "2"]);
    check(
        "PATH=$PWD/bin:$PATH; hello; linked",
        &[&format!("hello from {}", scene.path("w/bin/hello").display()), "linked"],
    );
    check(
        "mkdir -p a b && echo 1 > a/f && mv a/f b/g && cat b/g && ln b/g a/h && rm -r a b && echo done",
        &["1", "done"],
    );
    check("f=$(mktemp) && echo t > $f && cat $f", &["t"]);
    check(
        "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'",
        &["b'x'"],
    );
    let unix = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('s'); print('connected')";
    check(&format!("python3 -c \"{unix}\""), &["connected"]);
    let tcp = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('connected')";
    check(&format!("python3 -c \"{tcp}\""), &["connected"]);
    check("test -t 1; tty; ls -d /proc/self/fd >/dev/null && echo proc", &["not a tty", "proc"]);
}

#[test]
fn secrets_and_configuration_are_closed_under_the_built_in_policy() {
    if !are_met("secrets_and_configuration_are_closed_under_the_built_in_policy", NEEDS) {
        return;
    }
    let scene = Scene::new();
    for name in [
        "home/.ssh/id_ed25519",
        "home/.aws/credentials",
        "home/.bashrc",
        "w/.git/hooks/pre-commit",
        "w/.git/config",
        "w/f",
    ] {
        scene.file(name, "secret\n");
    }
    let policy = scene.builtin();
    let refused = |script: &str| {
        let lines =
            scene.lines(&policy, &format!("({script}) >/dev/null 2>&1 && echo PASSED || echo refused"));
        assert_eq!(lines, ["refused"], "{script}");
    };
    refused("cat ~/.ssh/id_ed25519");
    refused("cat ~/.aws/credentials");
    refused("cat /etc/shadow");
    refused("ls ~");
    refused("echo x >> ~/.bashrc");
    refused("echo x > .git/hooks/pre-commit");
    refused("echo x > .git/hooks/new");
    refused("rm .git/hooks/pre-commit");
    refused("rm -r .git/hooks");
    refused("mv .git/hooks .git/h2");
    refused("mv .git g2");
    refused("mkdir -p x/hooks && mv .git y && mv x .git");
    refused("echo x > n && mv n .git/hooks/pre-commit");
    refused("ln .git/hooks/pre-commit l && echo x > l");
    refused("ln -s .git/hooks/pre-commit s && echo x > s");
    refused("cd .git/hooks && echo x > pre-commit");
    refused("echo x > /proc/self/cwd/.git/hooks/pre-commit");
    refused("chmod +x .git/hooks/pre-commit");
    refused("truncate -s0 .git/config");
    refused("mount --bind f .git/config");
    refused("umount .git/hooks");
    refused("unshare -m umount .git/hooks");
    refused("python3 -c \"import os; os.rename('f', '.git/config')\"");
    assert_eq!(fs::read_to_string(scene.path("w/.git/hooks/pre-commit")).unwrap(), "secret\n");
    assert_eq!(fs::read_to_string(scene.path("w/.git/config")).unwrap(), "secret\n");
    assert_eq!(fs::read_dir(scene.path("w/.git/hooks")).unwrap().count(), 1);
    let fine = scene
        .lines(&policy, "cat .git/config .git/hooks/pre-commit && echo y > .git/index && cat .git/index");
    assert_eq!(fine, ["secret", "secret", "y"]);
    assert_eq!(mounts_outside(&scene), 0);
}

#[test]
fn a_denied_path_inside_an_allow_can_be_neither_read_nor_run() {
    if !are_met("a_denied_path_inside_an_allow_can_be_neither_read_nor_run", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/keys/a/key", "secret\n");
    scene.file("w/one.pem", "secret\n");
    scene.file("w/deep/er/two.pem", "secret\n");
    scene.file("w/tool", "#!/bin/sh\necho ran\n");
    fs::set_permissions(scene.path("w/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let policy = scene.policy(&format!(
        "{OPEN_WORKDIR}, deny: [keys, '**/*.pem']}}\nexec: {{deny: [./tool, /usr/bin/env]}}"
    ));
    let refused = |script: &str| {
        let (output, _) = scene.run(&policy, script);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            !output.status.success() && !text.contains("secret") && !text.contains("ran"),
            "{script}: {output:?}"
        );
    };
    refused("cat keys/a/key");
    refused("cat one.pem");
    refused("cat deep/er/two.pem");
    refused("cat < one.pem");
    refused("cp one.pem other && cat other");
    refused("ln one.pem other && cat other");
    refused("mv one.pem other && cat other");
    refused("mv deep d2 && cat d2/er/two.pem");
    refused("mv keys k2 && cat k2/a/key");
    refused("echo x > keys/new");
    refused("python3 -c \"import os; os.open('one.pem', os.O_PATH); print(open('one.pem').read())\"");
    refused("./tool");
    refused("mv tool tool2 && ./tool2");
    refused("ln tool tool2 && ./tool2");
    refused("/usr/bin/env true");
    assert_eq!(scene.lines(&policy, "cp tool copy && ./copy"), ["ran"]);
}

#[test]
fn a_denied_name_that_is_a_link_is_held_itself() {
    if !are_met("a_denied_name_that_is_a_link_is_held_itself", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/dots/rc", "target\n");
    scene.file("w/dots/conf", "target\n");
    scene.file("outside", "secret\n");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, scene.path(name)).unwrap();
    link("dots/rc", "w/.rc");
    link("dots/conf", "w/.conf");
    link("nowhere", "w/.gone");
    link("../outside", "w/.out");
    link("dots", "w/dir");
    let refused = |policy: &assay::policy::Policy, script: &str| {
        let lines =
            scene.lines(policy, &format!("({script}) >/dev/null 2>&1 && echo PASSED || echo refused"));
        assert_eq!(lines, ["refused"], "{script}");
    };
    let policy = scene.policy(&format!(
        "{OPEN_WORKDIR}, deny: [.rc, .gone, {{path: .conf, access: [write]}}, {{path: '.c*f', access: [write]}}]}}"
    ));
    for name in [".rc", ".gone", ".conf"] {
        refused(&policy, &format!("rm {name}"));
        refused(&policy, &format!("rm -f {name}; test ! -e {name}"));
        refused(&policy, &format!("mv {name} other"));
        refused(&policy, &format!("echo evil > {name}"));
        refused(&policy, &format!("echo evil > n && mv n {name}"));
        refused(&policy, &format!("ln -sfn n {name}"));
        refused(&policy, &format!("umount {name}"));
    }
    refused(&policy, "cat .rc");
    refused(&policy, "cat dots/rc");
    refused(&policy, "echo evil > dots/conf");
    assert_eq!(scene.lines(&policy, "cat .conf dots/conf"), ["target", "target"]);
    let (_, plan) = scene.run(&policy, "true");
    let open = plan.degradations.iter().map(|found| found.reason.as_str()).collect::<Vec<_>>();
    // What a pattern may match later is another matter.
    assert_eq!(open, ["deny-pattern-not-yet-existing"]);
    assert_eq!(fs::read_link(scene.path("w/.rc")).unwrap(), std::path::Path::new("dots/rc"));
    assert_eq!(fs::read_to_string(scene.path("w/dots/conf")).unwrap(), "target\n");

    // What cannot be held so is told before, and nothing that was closed is opened by holding it.
    let policy = scene.policy(&format!(
        "{OPEN_WORKDIR}, deny: [{{path: .out, access: [write]}}, {{path: dir, access: [write]}}, {{path: dir/rc, access: [write]}}]}}"
    ));
    refused(&policy, "cat .out");
    let (_, plan) = scene.run(&policy, "true");
    let told: Vec<_> = plan
        .degradations
        .iter()
        .map(|found| (found.reason.as_str(), found.detail.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(told, [("deny-symlink-name", "${WORKDIR}/.out"), ("deny-symlink-name", "${WORKDIR}/dir")]);
    assert_eq!(mounts_outside(&scene), 0);
}

#[test]
fn two_denies_of_one_name_are_both_held() {
    if !are_met("two_denies_of_one_name_are_both_held", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/f", "secret\n");
    scene.file("w/tool", "#!/bin/sh\necho ran\n");
    fs::set_permissions(scene.path("w/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let policy = scene.policy(&format!(
        "{OPEN_WORKDIR}, deny: [{{path: f, access: [write]}}, f, {{path: tool, access: [write]}}]}}\nexec: {{deny: [./tool]}}"
    ));
    for script in ["cat f", "echo x >> f", "./tool", "echo x >> tool"] {
        let (output, _) = scene.run(&policy, script);
        assert!(!output.status.success(), "{script}: {output:?}");
    }
    assert!(scene.lines(&policy, "cat tool").contains(&"echo ran".to_owned()));
}

#[test]
fn the_network_is_held_by_address_port_and_family() {
    if !are_met("the_network_is_held_by_address_port_and_family", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let other = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let datagrams = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let (port, denied) = (listener.local_addr().unwrap().port(), other.local_addr().unwrap().port());
    let udp = datagrams.local_addr().unwrap().port();
    let policy = scene.policy(&format!(
        "{OPEN_WORKDIR}}}\nnet: {{allow: ['127.0.0.1:{port}', '127.0.0.1:{udp}', '127.0.0.0/29:{denied}', '127.0.0.1:0'], deny: ['127.0.0.4']}}"
    ));
    let python = |code: &str| {
        let script = format!(
            "import socket, ctypes\ndef tcp(host, port, family=socket.AF_INET):\n s = socket.socket(family)\n s.settimeout(2)\n s.connect((host, port))\ndef send(host, port, family=socket.AF_INET):\n socket.socket(family, socket.SOCK_DGRAM).sendto(b'x', (host, port))\ntry:\n {code}\n print('passed')\nexcept OSError as e:\n print(e.errno)\n"
        );
        let (output, _) = scene.run_program(&policy, &["python3", "-c", &script]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let check = |code: &str, want: &str| assert_eq!(python(code), want, "{code}");
    check(&format!("tcp('127.0.0.1', {port})"), "passed");
    check(&format!("tcp('127.0.0.2', {port})"), "1");
    check(&format!("tcp('127.0.0.2', {denied})"), "passed");
    check(&format!("tcp('127.0.0.4', {denied})"), "1");
    check(&format!("tcp('127.0.0.9', {denied})"), "1");
    check(&format!("tcp('0.0.0.0', {port})"), "passed");
    check(&format!("tcp('::ffff:127.0.0.1', {port}, socket.AF_INET6)"), "passed");
    check(&format!("tcp('::ffff:127.0.0.4', {denied}, socket.AF_INET6)"), "1");
    check("tcp('::1', 80, socket.AF_INET6)", "13");
    check(&format!("tcp('::1', {port}, socket.AF_INET6)"), "1");
    check(&format!("send('127.0.0.1', {udp})"), "passed");
    check(&format!("send('127.0.0.2', {udp})"), "1");
    check(&format!("send('::ffff:127.0.0.2', {udp}, socket.AF_INET6)"), "1");
    check("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))", "1");
    check("socket.socket(socket.AF_INET).sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.2', 9))", "1");
    check("socket.socket().bind(('127.0.0.1', 0))", "passed");
    check("socket.socket().bind(('0.0.0.0', 0))", "1");
    check(&format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('127.0.0.2', {udp}))"), "1");
    check("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "1");
    check("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)", "1");
    check("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "13");
    check("socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)", "13");
    check("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", "passed");
    check("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)", "13");
    // Nobody outside the run is held to anything.
    let mut outside = std::net::TcpStream::connect((Ipv4Addr::new(127, 0, 0, 2), port)).unwrap();
    outside.write_all(b"x").unwrap();
}

#[test]
fn all_but_one_address_is_held_as_that() {
    if !are_met("all_but_one_address_is_held_as_that", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let reach = |rules: &str, address: &str| {
        let policy = scene.policy(&format!("{OPEN_WORKDIR}}}\nnet: {rules}"));
        let script = format!(
            "import socket\ntry:\n socket.create_connection(('{address}', {port}), 2)\n print('passed')\nexcept OSError as e:\n print(e.errno)\n"
        );
        let (output, plan) = scene.run_program(&policy, &["python3", "-c", &script]);
        assert_eq!(plan.degradations, [].into(), "{rules}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    for allow in ["*:*", "0.0.0.0/0:*", "0.0.0.0/0"] {
        let rules =
            format!("{{allow: ['{allow}'], deny: ['127.0.0.2', '169.254.169.254', '127.0.0.3:{port}']}}");
        assert_eq!(reach(&rules, "127.0.0.1"), "passed", "{allow}");
        assert_eq!(reach(&rules, "127.0.0.2"), "1", "{allow}");
        assert_eq!(reach(&rules, "127.0.0.3"), "1", "{allow}");
        assert_eq!(reach(&rules, "169.254.169.254"), "1", "{allow}");
        assert_eq!(reach(&format!("{{allow: ['{allow}']}}"), "127.0.0.2"), "passed", "{allow}");
    }
    assert_eq!(reach("{allow: ['127.0.0.1:*'], deny: ['*:*']}", "127.0.0.1"), "1");
}

#[test]
fn a_socket_that_is_gone_before_it_is_held_stops_nothing() {
    if !are_met("a_socket_that_is_gone_before_it_is_held_stops_nothing", NEEDS) {
        return;
    }
    let scene = Scene::new();
    for place in ["sockets", "w/sockets"] {
        let directory = scene.path(place);
        fs::create_dir(&directory).unwrap();
        let listener = UnixListener::bind(directory.join("s")).unwrap();
        let policy = scene.policy(&format!(
            "{OPEN_WORKDIR}}}\nnet: {{allow: ['127.0.0.1:*'], deny: ['unix:{}/s']}}",
            directory.display()
        ));
        let plan = plan_of(&policy);
        drop(listener);
        fs::remove_dir_all(&directory).unwrap();
        let output = scene.run_planned(&plan, &["sh", "-c", "echo ran"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n", "{place}: {output:?}");
    }
    // A denied name that the run could make again is not let go.
    scene.file("w/kept/secret", "x");
    let policy = scene.policy(&format!("{OPEN_WORKDIR}, deny: [kept/secret]}}"));
    let plan = plan_of(&policy);
    fs::remove_dir_all(scene.path("w/kept")).unwrap();
    assert!(scene.try_planned(&plan, &["true"]).is_err());
}

#[test]
fn without_a_network_rule_there_is_no_network_but_sockets_of_its_own() {
    if !are_met("without_a_network_rule_there_is_no_network_but_sockets_of_its_own", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let _abstract_socket = {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("assay-test-{}", std::process::id());
        UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap())
            .unwrap()
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let policy = scene.policy(&format!("{OPEN_WORKDIR}}}"));
    let check = |code: &str, want: &str| {
        let script = format!(
            "import socket, os\ntry:\n {code}\n print('passed')\nexcept OSError as e:\n print(e.errno)\n"
        );
        let (output, _) = scene.run_program(&policy, &["python3", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), want, "{code}: {output:?}");
    };
    check(&format!("socket.create_connection(('127.0.0.1', {port}))"), "13");
    check("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))", "1");
    check(&format!("socket.socket(socket.AF_UNIX).connect('\\0assay-test-{}')", std::process::id()), "1");
    check("os.kill(os.getppid(), 0)", "1");
    check("socket.socketpair()", "passed");
    // What passes all the same is named before the run.
    check("socket.socket().listen()", "passed");
    let listed = plan_of(&policy).not_governed;
    assert!(
        listed.iter().any(|line| line.starts_with("listening on a port that the kernel chooses")),
        "{listed:?}"
    );
}

#[test]
fn the_plan_for_this_kernel_leaves_little_unheld() {
    if !are_met("the_plan_for_this_kernel_leaves_little_unheld", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/.git/hooks/x", "");
    let policy = scene.policy(&format!("{OPEN_WORKDIR}, deny: [{{path: .git/hooks, access: [write]}}, '~/.ssh']}}\nnet: {{allow: ['127.0.0.1:*']}}\nexec: {{deny: [/usr/bin/env]}}"));
    let (output, plan) = scene.run(&policy, "true");
    assert!(output.status.success(), "{output:?}");
    let left: Vec<_> = plan.degradations.iter().map(assay::enforce::Degradation::explain).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn sockets_of_others_cannot_be_reached_and_its_own_can() {
    if !are_met("sockets_of_others_cannot_be_reached_and_its_own_can", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let sockets = scene.path("sockets");
    fs::create_dir(&sockets).unwrap();
    let _engine = UnixListener::bind(sockets.join("docker.sock")).unwrap();
    let _allowed = UnixListener::bind(sockets.join("allowed.sock")).unwrap();
    let _own = UnixListener::bind(scene.path("w/own.sock")).unwrap();
    let shown = sockets.display();
    let policy = scene.policy(&format!("{OPEN_WORKDIR}}}\nnet: {{allow: ['unix:{shown}/allowed.sock']}}"));
    let check = |path: &str, want: &str| {
        let script = format!(
            "import socket\ntry:\n socket.socket(socket.AF_UNIX).connect('{path}')\n print('passed')\nexcept OSError as e:\n print(e.errno)\n"
        );
        let (output, plan) = scene.run_program(&policy, &["python3", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), want, "{path}: {output:?}");
        assert_eq!(plan.degradations, [].into(), "{path}");
    };
    check(&format!("{shown}/docker.sock"), "111");
    check("../sockets/docker.sock", "111");
    check(&format!("{shown}/allowed.sock"), "passed");
    check("own.sock", "passed");
}

#[test]
fn an_older_landlock_holds_what_its_plan_says() {
    if !are_met(
        "an_older_landlock_holds_what_its_plan_says",
        &[Need::Root, Need::CgroupV2, Need::LandlockAbi(1)],
    ) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/f", "content\n");
    scene.file("outside", "secret\n");
    let policy = scene.policy("fs: {allow: [{path: '${WORKDIR}', access: [read, execute]}]}");
    let refused = |script: &str| {
        let (output, plan) = scene.run(&policy, script);
        assert!(!output.status.success(), "{script}: {output:?}");
        plan
    };
    refused("cat ../outside");
    refused("echo x >> f");
    refused("rm f");
    let plan = refused("mkdir d");
    let names_truncate =
        plan.degradations.iter().any(|degradation| degradation.reason == "landlock-truncate");
    assert_eq!(names_truncate, !assay::host::probe::probe_landlock().has(assay::host::Right::Truncate));
    assert_eq!(scene.lines(&policy, "cat f"), ["content"]);
}
