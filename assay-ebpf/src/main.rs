//! The kernel half: raw tracepoints fill a ring with records of what the run's tasks did.
//!
//! No formatting, no policy, no comparison of names beyond resolving them: decisions belong to userspace, where
//! they can be tested. On the host this crate is an empty program, so that one workspace builds on stable.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]
#![cfg_attr(
    target_arch = "bpf",
    expect(unsafe_code, reason = "every helper of the kernel and every shared map element is behind it")
)]

#[cfg(target_arch = "bpf")]
mod again;
#[cfg(target_arch = "bpf")]
mod aimed;
#[cfg(target_arch = "bpf")]
mod answers;
#[cfg(target_arch = "bpf")]
mod call;
#[cfg(target_arch = "bpf")]
mod chain;
#[cfg(target_arch = "bpf")]
mod emit;
#[cfg(target_arch = "bpf")]
mod kernel;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod network;
#[cfg(target_arch = "bpf")]
mod packet;
#[cfg(target_arch = "bpf")]
mod process;
#[cfg(target_arch = "bpf")]
mod receive;
#[cfg(target_arch = "bpf")]
mod scope;
#[cfg(target_arch = "bpf")]
mod served;
#[cfg(target_arch = "bpf")]
mod start;
#[cfg(target_arch = "bpf")]
mod taken;
#[cfg(target_arch = "bpf")]
mod traffic;
#[cfg(target_arch = "bpf")]
mod uring;
#[cfg(target_arch = "bpf")]
mod walk;
#[cfg(target_arch = "bpf")]
mod witness;
#[cfg(target_arch = "bpf")]
mod written;

#[cfg(not(target_arch = "bpf"))]
fn main() {}

/// The verifier refuses whatever could reach this.
#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Helpers that read kernel memory are offered to GPL-compatible programs only.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
