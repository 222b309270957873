//! What belongs to one run of those that a load serves: put in place before it is armed, read while it is, and made as new
//! after it.
//!
//! A run that has an observer of its own has the first slot, and its ring and traffic by themselves.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use assay_common::limits::{SERVED_INHERITED_LEN, SERVED_RING_BYTES};
use assay_common::loss::{COUNTERS, FAILURES};
use assay_common::names;
use assay_common::record::RepeatEntry;
use assay_common::served::{ONLY_RUN, Served, number_after, slot_of};
use aya::maps::RingBuf;
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::clearing;
use super::counted::{Counted, Counters, hook_name, repeat_places};
use super::object::{Loaded, aya_map, make_ring, make_traffic};
use super::observer::ObserverConfig;
use super::programs::{InheritedFile, ProgramsError, bad_map, possible_cpus};
use super::ring::Ring;
use super::traffic;
use crate::host::{bpf_elements as elements, netns};
use crate::observe::traffic::Traffic;

/// A run's place among those of a load.
#[derive(Debug)]
pub(super) struct Slot {
    /// The run's number.
    pub run: u32,
    /// Places of all processors together where its repeats are counted.
    places: u32,
    /// Where its traffic is counted, and its ring, where there are others beside it.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    ring: OwnedFd,
    traffic: OwnedFd,
}

impl Slot {
    /// Of a run that has the load for itself.
    pub fn only() -> Self {
        let places = repeat_places(possible_cpus()) * possible_cpus();
        Self { run: ONLY_RUN, places, own: None }
    }

    /// Gives this slot to the next run: what is left of the last one is removed, its ring and settings are put in place.
    pub fn take(
        loaded: &Loaded,
        slot: u32,
        places: u32,
        config: &ObserverConfig,
    ) -> Result<Self, ProgramsError> {
        let last = served(loaded, slot)?;
        if last.is_live != 0 {
            return Err(bad_map(names::SERVED, format!("slot {slot} is another run's")));
        }
        let run = number_after(last.run, slot);
        let own = place(loaded, slot)?;
        clearing::clear(loaded, slot, places)?;
        note_inherited(loaded, (run, SERVED_INHERITED_LEN), &config.inherited, &config.sockets)?;
        let served = Served {
            run,
            is_live: 1,
            watch_writes: u32::from(!config.inherited.is_empty()),
            counts_repeats: u32::from(config.counting.repeats),
            failures: config.counting.failures.number(),
            // Where it cannot be told, no packet is asked for it.
            netns: netns::own_cookie().unwrap_or(0),
            ..Served::default()
        };
        set_served(loaded, slot, &served)?;
        Ok(Self { run, places, own: Some(own) })
    }

    /// Its ring, which is not the load's.
    pub fn open_ring(&self) -> Result<Ring, ProgramsError> {
        let own =
            self.own.as_ref().ok_or_else(|| bad_map(names::RINGS, "the run has the load for itself"))?;
        let copy = own.ring.try_clone().map_err(|error| bad_map(names::RINGS, error))?;
        let map = aya_map(copy).map_err(|error| bad_map(names::RINGS, error))?;
        let ring = RingBuf::try_from(map).map_err(|error| bad_map(names::RINGS, error))?;
        Ok(Ring::of_run(ring, self.run))
    }

    fn index(&self) -> u32 {
        slot_of(self.run)
    }

    /// Records delivered and lost so far, by hook name, and processes that there was no room to watch.
    pub fn counters(&self, loaded: &Loaded) -> Result<Counters, ProgramsError> {
        counters(loaded, self.index())
    }

    /// What was counted and not sent.
    pub fn counted(&self, loaded: &Loaded) -> Result<Counted, ProgramsError> {
        let size = size_of::<RepeatEntry>();
        let map = loaded.map(names::REPEATS)?;
        let first = self.index() * self.places;
        let repeats = elements::values(map, size, first, self.places)
            .map_err(|error| bad_map(names::REPEATS, error))?;
        let repeated = sums(loaded, names::REPEATED, self.index(), COUNTERS)?;
        let failed = sums(loaded, names::FAILED, self.index(), COUNTERS * FAILURES.len() as u32)?;
        Ok(Counted::of(&repeats, &repeated, &failed))
    }

    /// What went over the network.
    pub fn traffic(&self, loaded: &Loaded) -> Result<Traffic, ProgramsError> {
        let ends = match &self.own {
            Some(own) => own.traffic.as_fd(),
            None => loaded.map(names::TRAFFIC)?,
        };
        traffic::read(ends, loaded.map(names::BEYOND)?, self.index())
            .map_err(|error| bad_map(names::TRAFFIC, error))
    }

    /// From here on nothing more is the run's: its group is no run's group, and what left it is nobody's.
    pub fn disarm(&self, loaded: &Loaded) -> Result<(), ProgramsError> {
        clearing::disarm(loaded, self.index())
    }
}

/// Makes a slot's ring, and what its traffic is counted in, where they are not there.
pub(super) fn prepare(loaded: &Loaded, slot: u32) -> Result<(), ProgramsError> {
    place(loaded, slot).map(drop)
}

/// Gives back the memory of a slot that no run has.
pub(super) fn release(loaded: &Loaded, slot: u32) -> Result<(), ProgramsError> {
    let remove = |name: &'static str| {
        let map = loaded.map(name)?;
        elements::remove(map, &slot.to_ne_bytes()).map_err(|error| bad_map(name, error))
    };
    both(|| remove(names::RINGS), || remove(names::TRAFFICS)).map(drop)
}

/// A slot's ring and traffic, made where they are not there.
fn place(loaded: &Loaded, slot: u32) -> Result<Own, ProgramsError> {
    let put = |name: &'static str, make: fn() -> io::Result<OwnedFd>| {
        if let Some(there) = placed(loaded, name, slot)? {
            return Ok(there);
        }
        let made = make().map_err(|error| bad_map(name, error))?;
        let number = made.as_raw_fd() as u32;
        elements::set(loaded.map(name)?, &slot.to_ne_bytes(), &number.to_ne_bytes())
            .map_err(|error| bad_map(name, error))?;
        Ok(made)
    };
    let (ring, traffic) =
        both(|| put(names::RINGS, || make_ring(SERVED_RING_BYTES)), || put(names::TRAFFICS, make_traffic))?;
    Ok(Own { ring, traffic })
}

/// Two changes of maps of maps at a time: the kernel answers when no program can be using what was there before, for which
/// it waits some milliseconds.
fn both<T: Send>(
    one: impl FnOnce() -> Result<T, ProgramsError>,
    other: impl FnOnce() -> Result<T, ProgramsError> + Send,
) -> Result<(T, T), ProgramsError> {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((one?, other?))
    })
}

/// What such a map has for a slot.
pub(super) fn placed(
    loaded: &Loaded,
    name: &'static str,
    slot: u32,
) -> Result<Option<OwnedFd>, ProgramsError> {
    let found = elements::lookup(loaded.map(name)?, &slot.to_ne_bytes(), size_of::<u32>());
    let id = found.map_err(|error| bad_map(name, error))?;
    let id = id.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
    id.map(|id| elements::open_by_id(id).map_err(|error| bad_map(name, error))).transpose()
}

/// Records delivered and lost so far in this slot.
pub(super) fn counters(loaded: &Loaded, slot: u32) -> Result<Counters, ProgramsError> {
    let of = |name| -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        let sums = sums(loaded, name, slot, COUNTERS)?;
        let named = (0..).zip(sums).filter_map(|(index, sum)| Some((hook_name(index)?, sum)));
        Ok(named.collect())
    };
    let unkept = served(loaded, slot)?.unkept;
    Ok(Counters { seen: of(names::SEEN)?, lost: of(names::LOST)?, unkept })
}

/// A slot's counters of all processors together.
fn sums(loaded: &Loaded, name: &'static str, slot: u32, count: u32) -> Result<Vec<u64>, ProgramsError> {
    let size = size_of::<u64>() * possible_cpus() as usize;
    let bytes = elements::values(loaded.map(name)?, size, slot * count, count);
    let bytes = bytes.map_err(|error| bad_map(name, error))?;
    let number = |bytes: &[u8]| u64::read_from_bytes(bytes).expect("eight bytes are a number");
    Ok(bytes
        .chunks_exact(size)
        .map(|of_all| of_all.chunks_exact(size_of::<u64>()).map(number).sum())
        .collect())
}

/// Notes files and sockets that a run inherits.
pub(super) fn note_inherited(
    loaded: &Loaded,
    (run, most): (u32, u32),
    files: &[InheritedFile],
    sockets: &[InheritedFile],
) -> Result<(), ProgramsError> {
    if files.len() + sockets.len() > most as usize {
        return Err(bad_map(
            names::INHERITED,
            format!("the run inherits more than {most} files and sockets"),
        ));
    }
    let map = loaded.map(names::INHERITED)?;
    let files = files.iter().map(|file| (file, 1u32));
    for (file, is_watched) in files.chain(sockets.iter().map(|socket| (socket, 0))) {
        let (major, minor) = (rustix::fs::major(file.dev), rustix::fs::minor(file.dev));
        // The kernel's own encoding of a device number.
        let dev = major << 20 | minor;
        let key = [&dev.to_ne_bytes()[..], &run.to_ne_bytes(), &file.ino.to_ne_bytes()].concat();
        elements::set(map, &key, &is_watched.to_ne_bytes()).map_err(|e| bad_map(names::INHERITED, e))?;
    }
    Ok(())
}

/// What a slot holds.
pub(super) fn served(loaded: &Loaded, slot: u32) -> Result<Served, ProgramsError> {
    let found = elements::lookup(loaded.map(names::SERVED)?, &slot.to_ne_bytes(), size_of::<Served>());
    let bytes = found.map_err(|error| bad_map(names::SERVED, error))?;
    let served = bytes.and_then(|bytes| Served::read_from_bytes(&bytes).ok());
    served.ok_or_else(|| bad_map(names::SERVED, format!("there is no slot {slot}")))
}

/// Sets it.
pub(super) fn set_served(loaded: &Loaded, slot: u32, served: &Served) -> Result<(), ProgramsError> {
    elements::set(loaded.map(names::SERVED)?, &slot.to_ne_bytes(), served.as_bytes())
        .map_err(|error| bad_map(names::SERVED, error))
}
