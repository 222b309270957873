//! The index: which runs are where in the chain, and which names each of them told. `SQLite`; made of the chain and the
//! bundles, made anew whenever it does not fit them, and never believed: what it finds is read from the chain again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params, params_from_iter,
};
use rustix::fs::{FileType, OFlags};

use super::chain::Walk;
use super::entry::{BUNDLE, Body, Entry};
use super::error::SpoolError;
use super::query::{Query, Whose};
use super::store::{OPEN, RUNS, Spool};
use super::told_names::ToldNames;
use crate::canon::digest::Digest;

/// The name of the file.
pub const FILE: &str = "index.sqlite";

/// What `SQLite` may put beside it.
const BESIDE: [&str; 3] = ["index.sqlite-journal", "index.sqlite-wal", "index.sqlite-shm"];

/// The version of the tables; another one is made anew.
const VERSION: i64 = 1;

/// Another process may be reading ten thousand bundles.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

const TABLES: &str = "
    CREATE TABLE progress (only INTEGER PRIMARY KEY CHECK (only = 0), offset INTEGER NOT NULL);
    CREATE TABLE runs (
        seq INTEGER PRIMARY KEY, offset INTEGER NOT NULL, length INTEGER NOT NULL, sha256 BLOB NOT NULL,
        time INTEGER NOT NULL, uid INTEGER, user TEXT, verdict TEXT NOT NULL, run_id TEXT,
        directory TEXT NOT NULL, has_bundle INTEGER NOT NULL, names INTEGER NOT NULL);
    CREATE TABLE lines (seq INTEGER PRIMARY KEY, offset INTEGER NOT NULL, length INTEGER NOT NULL, sha256 BLOB NOT NULL);
    CREATE TABLE collected (seq INTEGER PRIMARY KEY, by INTEGER NOT NULL);
    CREATE TABLE names (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, text TEXT NOT NULL, UNIQUE (kind, text));
    CREATE TABLE uses (name INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (name, seq)) WITHOUT ROWID;
    INSERT INTO progress VALUES (0, 0);
";

/// How far the names of a run were read: `runs.names`.
const NOT_READ: i64 = 0;
const WHOLE: i64 = 1;
const CUT: i64 = 2;
const NONE: i64 = 3;

/// `names.kind`.
const PATH: i64 = 0;
const HOST: i64 = 1;

/// Why the index could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The spool could not be read.
    #[error("{0}")]
    Spool(#[from] SpoolError),
    /// `SQLite` said no, also of an index that was made anew.
    #[error("use the index of {}: {source}", spool.display())]
    Sql {
        /// The spool.
        spool: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// It does not fit the chain, also when it was made anew: somebody changes the chain.
    #[error("use the index of {}: the chain is changed while it is read", spool.display())]
    Unfit {
        /// The spool.
        spool: PathBuf,
    },
}

/// What goes wrong inside; an index that is made anew may not have it.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
    #[error("{0}")]
    Spool(#[from] SpoolError),
    #[error("it does not fit the chain")]
    Unfit,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The runs, the last one first.
    pub runs: Vec<FoundRun>,
    /// How many more there are than were asked for.
    pub more: u64,
    /// Runs that could not be searched for names, and why.
    pub unsearched: BTreeMap<&'static str, u64>,
}

/// A run that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    /// Its entry, as the chain has it.
    pub entry: Entry,
    /// Of the entry's line.
    pub sha256: Digest,
    /// The entry that removed its files, where one did.
    pub collected_by: Option<u64>,
}

impl Spool {
    /// The runs that are asked for, the last one first, and no more of them than `most`.
    pub fn find(&self, query: &Query, most: Option<usize>) -> Result<Found, IndexError> {
        let first = self.find_by(self.open_index(), query, most);
        let second = match first {
            Err(Trouble::Sql(_) | Trouble::Unfit) => {
                self.remove_index();
                self.find_by(self.open_index(), query, most)
            }
            done => done,
        };
        second.map_err(|trouble| {
            let spool = self.path().to_owned();
            match trouble {
                Trouble::Spool(error) => error.into(),
                Trouble::Sql(source) => IndexError::Sql { spool, source },
                Trouble::Unfit => IndexError::Unfit { spool },
            }
        })
    }

    fn find_by(
        &self,
        index: Result<Connection, rusqlite::Error>,
        query: &Query,
        most: Option<usize>,
    ) -> Result<Found, Trouble> {
        let mut index = index?;
        self.refresh_runs(&mut index)?;
        if query.asks_for_names() {
            self.refresh_names(&mut index)?;
        }
        self.search(&index, query, most)
    }

    /// The index as it is; where none can be, as on a disk that is full or only read, one in memory.
    fn open_index(&self) -> Result<Connection, rusqlite::Error> {
        let is_ours = self.inner.root.stat(FILE).ok().flatten().is_none_or(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1
        });
        if !is_ours {
            self.remove_index();
        }
        let open = || {
            // The path has no link in it, as SQLite is told to make sure.
            let path = self.inner.path.canonicalize().ok()?.join(FILE);
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_NOFOLLOW;
            let index = Connection::open_with_flags(path, flags).ok()?;
            prepare(&index).ok().filter(|is_ours| *is_ours).map(|_| index)
        };
        if let Some(index) = open() {
            return Ok(index);
        }
        self.remove_index();
        if let Some(index) = open() {
            return Ok(index);
        }
        let index = Connection::open_in_memory()?;
        prepare(&index)?;
        Ok(index)
    }

    fn remove_index(&self) {
        for name in std::iter::once(FILE).chain(BESIDE) {
            // One that cannot be removed is not used either.
            drop(self.inner.root.remove(name));
        }
    }

    /// Takes in what was appended since.
    fn refresh_runs(&self, index: &mut Connection) -> Result<(), Trouble> {
        let transaction = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let last: Option<(i64, i64, Vec<u8>)> = transaction
            .query_row("SELECT offset, length, sha256 FROM lines ORDER BY seq DESC LIMIT 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let offset: i64 = transaction.query_row("SELECT offset FROM progress", [], |row| row.get(0))?;
        let offset = u64::try_from(offset).map_err(|_| Trouble::Unfit)?;
        if let Some((offset, length, sha256)) = last {
            // The last line names all before it.
            self.read_entry(offset, length, &sha256)?;
        } else if offset != 0 {
            return Err(Trouble::Unfit);
        }
        let Some((stat, mut lines)) = self.chain_from(offset)? else { return Err(Trouble::Unfit) };
        if (stat.st_size as u64) < offset {
            return Err(Trouble::Unfit);
        }
        let mut end = offset;
        {
            let mut add = Adding::new(&transaction)?;
            let mut walk = Walk::new(None);
            while let Some(line) = lines.read().map_err(|error| self.failed("read the chain", error))? {
                if !line.is_ended {
                    break;
                }
                let entry = walk.add(&line);
                end = line.offset + line.length + 1;
                if let Some(entry) = entry {
                    add.entry(&entry, line.offset, line.length, &line.sha256)?;
                }
            }
        }
        if end != offset {
            let end = i64::try_from(end).map_err(|_| Trouble::Unfit)?;
            transaction.execute("UPDATE progress SET offset = ?1", [end])?;
        }
        Ok(transaction.commit()?)
    }

    /// Reads the bundles of the runs whose names are not there yet.
    fn refresh_names(&self, index: &mut Connection) -> Result<(), Trouble> {
        // A few at a time, so that what was read stays when somebody is out of patience.
        const AT_ONCE: i64 = 500;
        loop {
            let transaction = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let unread: Vec<(i64, String, bool)> = transaction
                .prepare("SELECT seq, directory, has_bundle FROM runs WHERE names = ?1 LIMIT ?2")?
                .query_map([NOT_READ, AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()?;
            if unread.is_empty() {
                return Ok(());
            }
            {
                let mut name_id =
                    transaction.prepare("SELECT id FROM names WHERE kind = ?1 AND text = ?2")?;
                let mut new_name = transaction.prepare("INSERT INTO names (kind, text) VALUES (?1, ?2)")?;
                let mut new_use = transaction.prepare("INSERT OR IGNORE INTO uses VALUES (?1, ?2)")?;
                let mut is_read = transaction.prepare("UPDATE runs SET names = ?1 WHERE seq = ?2")?;
                for (seq, directory, has_bundle) in unread {
                    let told = if has_bundle { self.told_names(&directory) } else { None };
                    let state = match &told {
                        None => NONE,
                        Some(told) if told.is_cut => CUT,
                        Some(_) => WHOLE,
                    };
                    let told = told.unwrap_or_default();
                    let paths = told.paths.iter().map(|name| (PATH, name));
                    for (kind, name) in paths.chain(told.hosts.iter().map(|name| (HOST, name))) {
                        let known: Option<i64> =
                            name_id.query_row(params![kind, name], |row| row.get(0)).optional()?;
                        let id = match known {
                            Some(id) => id,
                            None => new_name.insert(params![kind, name])?,
                        };
                        new_use.execute([id, seq])?;
                    }
                    is_read.execute([state, seq])?;
                }
            }
            transaction.commit()?;
        }
    }

    fn told_names(&self, directory: &str) -> Option<ToldNames> {
        let beneath = |name: &str| -> std::io::Result<std::fs::File> {
            let parent = if name == RUNS { &self.inner.runs } else { &self.inner.open };
            parent.open_directory(directory)?.open_file(BUNDLE, OFlags::RDONLY)
        };
        let file = beneath(RUNS).or_else(|_| beneath(OPEN)).ok()?;
        ToldNames::of(file).ok()
    }

    fn search(&self, index: &Connection, query: &Query, most: Option<usize>) -> Result<Found, Trouble> {
        let (conditions, values) = conditions(query);
        let sql = format!(
            "SELECT runs.offset, runs.length, runs.sha256, collected.by FROM runs \
             LEFT JOIN collected ON collected.seq = runs.seq WHERE {conditions} ORDER BY runs.seq DESC"
        );
        let mut found = Found::default();
        let mut statement = index.prepare(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut reader = None;
        while let Some(row) = rows.next()? {
            let (offset, length, sha256): (i64, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let by: Option<i64> = row.get(3)?;
            let entry = self.read_entry_with(&mut reader, offset, length, &sha256)?;
            if !query.takes(&entry.0) {
                continue;
            }
            if most.is_some_and(|most| found.runs.len() >= most) {
                found.more += 1;
                continue;
            }
            let collected_by = by.and_then(|by| u64::try_from(by).ok());
            found.runs.push(FoundRun { entry: entry.0, sha256: entry.1, collected_by });
        }
        if query.asks_for_names() {
            for (state, why) in
                [(NONE, "they have no bundle that is good"), (CUT, "they have too many names")]
            {
                let count: i64 =
                    index
                        .query_row("SELECT count(*) FROM runs WHERE names = ?1", [state], |row| row.get(0))?;
                if count > 0 {
                    found.unsearched.insert(why, count as u64);
                }
            }
        }
        Ok(found)
    }

    fn read_entry(&self, offset: i64, length: i64, sha256: &[u8]) -> Result<(Entry, Digest), Trouble> {
        self.read_entry_with(&mut None, offset, length, sha256)
    }

    /// The entry at a place of the chain, where it is the one that the index says.
    fn read_entry_with(
        &self,
        reader: &mut Option<super::store::EntryReader>,
        offset: i64,
        length: i64,
        sha256: &[u8],
    ) -> Result<(Entry, Digest), Trouble> {
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(self.entry_reader()?.ok_or(Trouble::Unfit)?),
        };
        let (Ok(offset), Ok(length)) = (u64::try_from(offset), usize::try_from(length)) else {
            return Err(Trouble::Unfit);
        };
        let (entry, digest) = reader.read(offset, length).ok_or(Trouble::Unfit)?;
        if digest.as_raw().as_slice() == sha256 { Ok((entry, digest)) } else { Err(Trouble::Unfit) }
    }
}

/// Puts entries in.
struct Adding<'a> {
    line: rusqlite::Statement<'a>,
    run: rusqlite::Statement<'a>,
    collected: rusqlite::Statement<'a>,
}

impl<'a> Adding<'a> {
    fn new(index: &'a Connection) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            line: index.prepare("INSERT OR REPLACE INTO lines VALUES (?1, ?2, ?3, ?4)")?,
            run: index.prepare(
                "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)",
            )?,
            collected: index.prepare("INSERT OR REPLACE INTO collected VALUES (?1, ?2)")?,
        })
    }

    fn entry(&mut self, entry: &Entry, offset: u64, length: u64, sha256: &Digest) -> Result<(), Trouble> {
        // No chain is that long; one that says so was not written here, and `verify` tells it.
        let number = |number: u64| i64::try_from(number).ok();
        let (Some(seq), Some(offset), Some(length)) = (number(entry.seq), number(offset), number(length))
        else {
            return Ok(());
        };
        let sha256 = sha256.as_raw().as_slice();
        self.line.execute(params![seq, offset, length, sha256])?;
        if let Body::Collected(collected) = &entry.body {
            for gone in collected.runs.iter().copied().filter_map(number) {
                self.collected.execute([gone, seq])?;
            }
        }
        let Some((directory, files)) = entry.body.place() else { return Ok(()) };
        let user = entry.body.user();
        let run_id = match &entry.body {
            Body::Run(run) => run.summary.run_id.as_deref(),
            Body::Lost(_) | Body::Begun | Body::BegunAnew { .. } | Body::Collected(_) | Body::Torn(_) => None,
        };
        self.run.execute(params![
            seq,
            offset,
            length,
            sha256,
            entry.time.seconds(),
            user.map(|user| user.uid),
            user.and_then(|user| user.name.as_deref()),
            entry.body.verdict().unwrap_or_default(),
            run_id,
            directory,
            files.contains_key(BUNDLE),
        ])?;
        Ok(())
    }
}

/// Makes the tables where they are not there; false when there are others.
fn prepare(index: &Connection) -> Result<bool, rusqlite::Error> {
    index.busy_timeout(PATIENCE)?;
    // What is in the file may be somebody else's idea of an index.
    index.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    index.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // It can be made again: nothing needs to be waited for.
    index.execute_batch(
        "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cell_size_check = ON;",
    )?;
    index.execute_batch("BEGIN IMMEDIATE")?;
    let version: i64 = index.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = index.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if version != VERSION && tables == 0 {
        index.execute_batch(TABLES)?;
        index.execute_batch(&format!("PRAGMA user_version = {VERSION}"))?;
    }
    index.execute_batch("COMMIT")?;
    Ok(version == VERSION || tables == 0)
}

/// What SQL can tell; the rest is asked of the entries.
fn conditions(query: &Query) -> (String, Vec<Value>) {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &str, more: Vec<Value>| {
        conditions.push(condition.to_owned());
        values.extend(more);
    };
    match &query.user {
        Some(Whose::Id(uid)) => add("runs.uid = ?", vec![Value::Integer((*uid).into())]),
        Some(Whose::Name(name)) => add("runs.user = ?", vec![name.clone().into()]),
        None => {}
    }
    if let Some(since) = query.since {
        add("runs.time >= ?", vec![since.seconds().into()]);
    }
    if let Some(until) = query.until {
        add("runs.time < ?", vec![until.seconds().into()]);
    }
    if let Some(verdict) = &query.verdict {
        add("runs.verdict = ?", vec![verdict.clone().into()]);
    }
    if let Some(run_id) = &query.run_id {
        add("runs.run_id = ?", vec![run_id.clone().into()]);
    }
    let uses =
        "runs.seq IN (SELECT uses.seq FROM uses JOIN names ON names.id = uses.name WHERE names.kind = ";
    if let Some(path) = &query.path {
        // Beneath it: from `path/` up to, and without, what follows all that begins so, which is `path0`.
        let path = if path == "/" { "" } else { path.strip_suffix('/').unwrap_or(path) };
        let beneath = format!("{uses}{PATH} AND (names.text = ? OR (names.text >= ? AND names.text < ?)))");
        add(&beneath, vec![path.to_owned().into(), format!("{path}/").into(), format!("{path}0").into()]);
    }
    if let Some(host) = &query.host {
        add(&format!("{uses}{HOST} AND names.text = ?)"), vec![host.clone().into()]);
    }
    (conditions.join(" AND "), values)
}
