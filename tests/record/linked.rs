// SPDX-License-Identifier: Apache-2.0
// The chain of calls of chains.c, in Rust: main -> run -> chain_a -> chain_b -> chain_c -> leaf, for so many seconds.
use std::time::{Duration, Instant};

// Hide a value from the optimizer: std::hint::black_box is stable since Rust 1.66 only.
#[inline(always)]
fn black_box<T: Copy>(x: T) -> T {
    unsafe { std::ptr::read_volatile(&x) }
}

#[inline(never)]
fn leaf(mut x: u64) -> u64 {
    for _ in 0..4000 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(x >> 33));
    }
    x
}

#[inline(never)]
fn chain_c(x: u64) -> u64 {
    let mut a = x;
    for _ in 0..16 {
        a = a.wrapping_add(leaf(a));
    }
    a
}

#[inline(never)]
fn chain_b(x: u64) -> u64 {
    let room = black_box([x as u8; 200]);
    chain_c(x).wrapping_add(room[(x % 200) as usize] as u64)
}

#[inline(never)]
fn chain_a(x: u64) -> u64 {
    chain_b(x + 1).wrapping_mul(5)
}

#[inline(never)]
fn run(x: u64) {
    let _ = black_box(chain_a(black_box(x)));
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut x = 1;
    while Instant::now() < end {
        run(x);
        x += 1;
    }
}
