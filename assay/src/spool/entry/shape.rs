//! What a line of the chain holds, for its reader and for its JSON Schema. Pure.

use super::SCHEMA;
use crate::canon::shape::{Field, Form, Members, Shape, always, list, map, or_null, sometimes};
use crate::evidence::shapes;
use crate::observe::loss::{Completeness, Kind};

/// The largest user id.
const MOST_UID: i64 = u32::MAX as i64;

/// A line of the chain.
pub fn shape() -> Shape {
    Shape::OneOf(kinds().map(|(_, shape)| shape).into())
}

/// The same, by what the line says.
pub fn kinds() -> [(&'static str, Shape); 6] {
    [
        ("begun", begun()),
        ("begun-anew", begun_anew()),
        ("run", run()),
        ("lost", lost()),
        ("collected", collected()),
        ("torn", torn()),
    ]
}

fn one(kind: &'static str, fields: Vec<Field>) -> Shape {
    let digest = || Shape::Form(Form::Digest);
    Shape::Object(vec![
        always("schema", Shape::Word(vec![SCHEMA]), "the version of the line"),
        always("kind", Shape::Word(vec![kind]), "what the line says"),
        always("seq", Shape::Count, "its place, from 0"),
        always(
            "prev",
            digest(),
            "of the bytes of the entry before, without the line feed; of nothing for the first",
        ),
        always("time", Shape::Form(Form::Moment), "when it was written, by the clock of the host"),
    ])
    .and(fields)
}

fn begun() -> Shape {
    one("begun", vec![])
}

fn begun_anew() -> Shape {
    one("begun-anew", vec![always("found", Shape::Count, "how many directories of runs were there already")])
}

fn user() -> Shape {
    Shape::Object(vec![
        always("uid", Shape::Between(0, MOST_UID), "user id"),
        sometimes("name", Shape::Text, "the user's name, where the host has one"),
    ])
}

fn words(about: &'static str) -> Field {
    always("command", list(Shape::Text), about)
}

fn files() -> Field {
    let file = Shape::Object(vec![
        always("sha256", Shape::Form(Form::Digest), "of its bytes"),
        always("bytes", Shape::Count, "how many they are"),
    ]);
    always("files", map(file), "the files of the run by name")
}

fn directory() -> Field {
    always("directory", Shape::Filled, "the name of the run's directory")
}

fn run() -> Shape {
    let digest = || Shape::Form(Form::Digest);
    let word = || {
        Shape::Word(
            [Completeness::Complete, Completeness::Partial, Completeness::None]
                .map(Completeness::as_str)
                .into(),
        )
    };
    let coverage =
        Shape::Object(Kind::ALL.map(|kind| always(kind.as_str(), word(), "how much of it was seen")).into());
    one(
        "run",
        vec![
            always("user", user(), "whose run it is"),
            always("begun_at", Shape::Form(Form::Moment), "when it began"),
            directory(),
            files(),
            sometimes("run_id", Shape::Form(Form::RunId), "absent without evidence"),
            sometimes("digest", digest(), "of the identity; absent without evidence"),
            words("its words, secrets redacted"),
            sometimes("workdir", Shape::Text, "where it ran"),
            always("mode", Shape::Text, "how it was held: default, dry-run, enforce"),
            sometimes("policy_digest", digest(), "of the policy's bytes"),
            always(
                "outcome",
                or_null(shapes::outcome()),
                "how the command ended; null when it did not start",
            ),
            always("exit_code", Shape::Between(0, 255), "ours"),
            always("verdict", Shape::Text, "what was decided"),
            always("reasons", list(Shape::Text), "why"),
            always("degradations", list(shapes::degradation()), "what was asked of the sandbox and not kept"),
            sometimes("coverage", coverage, "how far the record can be trusted; absent without evidence"),
            always("counts", map(Shape::Count), "effects of each kind, those denied, records lost"),
            always(
                "duration_ms",
                Shape::Count,
                "from the first instruction to the end of the last descendant",
            ),
            sometimes(
                "left_out",
                map(Shape::Count),
                "what had no room in the line, by its key; the run's files have it",
            ),
        ],
    )
}

fn lost() -> Shape {
    one(
        "lost",
        vec![
            sometimes(
                "begun",
                super::super::begun::shape(),
                "what was noted when it began; absent where that is not whole",
            ),
            directory(),
            files(),
            always(
                "not_whole",
                Shape::List(Box::new(Shape::Text), Members::Distinct),
                "those of the files that are no whole files of their kind",
            ),
        ],
    )
}

fn collected() -> Shape {
    let why = |key, about| Shape::Object(vec![always(key, Shape::Count, about)]);
    one(
        "collected",
        vec![
            always(
                "runs",
                Shape::List(Box::new(Shape::Count), Members::SomeDistinct),
                "by the seq of their entries",
            ),
            always("bytes", Shape::Count, "how many bytes they had"),
            always(
                "why",
                Shape::OneOf(vec![
                    why("keep_days", "they were older than so many days"),
                    why("max_bytes", "all together were more than so many bytes, and these were the oldest"),
                ]),
                "why they were removed",
            ),
        ],
    )
}

fn torn() -> Shape {
    one(
        "torn",
        vec![
            always(
                "sha256",
                Shape::Form(Form::Digest),
                "of the bytes between the entry before and this line",
            ),
            always("bytes", Shape::Count, "how many they are"),
        ],
    )
}
