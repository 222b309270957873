//! Names that people gave and names that programs drew, in places for temporary files and gone at the end: which stay and
//! which fold. A given name that folds costs sensitivity, a drawn one that stays costs stability; each that does is in a list
//! here, and how many do is on the page.

use std::collections::{BTreeMap, BTreeSet};

use super::{Run, canonicalize, context, line};
use crate::observe::observation::{Access, Act, CallResult, FileAct, FileKind, FileOp, PathRef};

/// One in a line: of the files of a machine, drawn by lot among those that mix letters and digits or small letters and
/// capitals; and of many trades, by hand.
const GIVEN: &str = include_str!("../../../../../tests/fixtures/names/given.txt");
/// By strace of the programs that drew them: the program (and what it was told), how it made the file, where, and what the
/// file was renamed to.
const DRAWN: &str = include_str!("../../../../../tests/fixtures/names/drawn.tsv");
const PAGE: &str = include_str!("../../../../../docs/stability.md");

/// Given, and folds: nothing tells these from what chance draws.
const GIVEN_AND_FOLDED: &str = "
2captcha 2cpu4gb.yaml 30d90d 4chan1 4k60fps 512kb4k BackendServiceCdnPolicyBypassCacheOnRequestHeader.yaml
BareMetalSrIovConfig.yaml DbInstanceReplicaMode.py EventSourceMappingToSqsTimeout.py FreeGLUTTargets.cmake
GRCh38p14.fa LENOVO-81JL-LenovoYOGAC630_13Q50-LNVNB161216.conf MSVSNew.py MySQLdb PyMeeus R1R2merge RegAllocPBQP.h
XtGetGC.3.gz _mozilla_bug638318_text.html a320neo ahb1lpenr.rs armv5te-unknown-linux-gnueabi.md aws_ec2_ec2fleet
b737max batch64lr3e4 bmw320d boeing747sp bs32ep10 c99gnu ce7b8643.0 ch01sec02.tex chr12pos400 day1night2
dqCompareTotalMag.decTest enp0s31f6 fig2a3 flt2dec.md fmpi2c1 greetingInGreek.py greetingInKorean.py hg19tohg38.chain
i9k13900 iOSApp jdk17u.tar jdk8u292b10 jre8u202 libLLVMBOLTTargetAArch64.a libLLVMM68kCodeGen.a
libaddr2line-5cd4604a1d571a6e.rmeta libdav1d6 libj2gss.so log1pf.rs log1pl.3.gz lr1e4bs32 m5d24xlarge mat4x4.h
nokia3310x pep8ext_naming.pyi ps5pro q1fy25.pdf r6g4xlarge resnet50v2.onnx rgb24to32 rtx4090ti
rust_networking_7e754194241e.txt s3bucket.json stm32f427 vgg16bn win2kras.pyi win32pdhquery.pyi wlp3s0b1 x-sv4cpio.xml
";

/// Drawn, and stays, in whole or in part: fewer than six characters, letters alone, or base 64 that is torn by its own signs.
const DRAWN_AND_KEPT: &str = "
1kbcuJpbVQ_a OYhA-Skg_EHW hjd1Mf-mKxtQ tCXlabR5-oQy5F2E up-a0zpu.part up-d47h8.part up-fqkaoi.part up-ru7n2.part
";

/// What a run comes to that makes `path` so, and removes it or renames it to `target`.
fn told(maker: &str, how: &str, path: &str, target: Option<&str>) -> BTreeSet<String> {
    let mut run = Run::new(1234);
    run.exec(&format!("/usr/bin/{maker}"), None, &[maker]);
    let is_directory = how.starts_with("mk") && how != "mkstemp";
    let access = [Access::Write, Access::Create].into_iter();
    let act = FileAct {
        op: if is_directory { FileOp::Mkdir } else { FileOp::Open },
        path: PathRef::resolved(path),
        requested: None,
        access: if is_directory {
            [].into()
        } else {
            access.chain((how == "mkstemp").then_some(Access::Read)).collect()
        },
        kind: FileKind::Regular,
        is_path_only: false,
        is_private: how == "mkstemp" || how == "mkdtemp",
    };
    run.act(Act::File(act), CallResult::Ok);
    match target {
        Some(target) => _ = run.rename(path, target),
        None if is_directory => _ = run.file(FileOp::Rmdir, path, &[], 0),
        None => _ = run.delete(path),
    }
    let canonical = canonicalize(context(&["prog"], 1234), &run.observations);
    canonical.identity.effects.iter().map(line).collect()
}

fn list(names: &str) -> BTreeSet<&str> {
    names.split_ascii_whitespace().collect()
}

#[test]
fn given_names_stay_and_drawn_ones_fold_but_for_those_that_are_listed() {
    let given = list(GIVEN);
    let folded: BTreeSet<&str> = given
        .iter()
        .copied()
        .filter(|name| {
            let path = format!("/tmp/{name}");
            !told("prog", "open", &path, None).contains(&format!("create {path} ok"))
        })
        .collect();
    let drawn: Vec<Vec<&str>> = DRAWN.lines().map(|line| line.split('\t').collect()).collect();
    let mut by_telling: BTreeMap<(&str, BTreeSet<String>), Vec<&str>> = BTreeMap::new();
    for row in &drawn {
        let [maker, how, path, target] = row[..] else { panic!("{row:?}") };
        let telling = told(maker, how, path, Some(target).filter(|target| *target != "-"));
        by_telling.entry((maker, telling)).or_default().push(path.rsplit('/').next().unwrap_or_default());
    }
    // What was drawn and folded is told as another that the same program drew.
    let kept: BTreeSet<&str> =
        by_telling.values().filter(|names| names.len() == 1).flatten().copied().collect();
    let makers = drawn.iter().map(|row| row[0]).collect::<BTreeSet<_>>().len();
    let table = format!(
        "| names | of | stay | fold |\n| --- | ---: | ---: | ---: |\n\
        | that somebody gave | {} | {} | {} |\n| that {makers} programs drew | {} | {} | {} |\n",
        given.len(),
        given.len() - folded.len(),
        folded.len(),
        drawn.len(),
        kept.len(),
        drawn.len() - kept.len(),
    );
    assert!(given.len() >= 150 && drawn.len() >= 150, "{table}");
    assert_eq!(folded, list(GIVEN_AND_FOLDED), "given, and folded");
    assert_eq!(kept, list(DRAWN_AND_KEPT), "drawn, and kept");
    assert!(PAGE.contains(&table), "the table of docs/stability.md is to be:\n{table}");
}
