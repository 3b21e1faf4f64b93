// SPDX-License-Identifier: Apache-2.0
//! Labels in Rust: threads, then futures that take turns on one thread. Prints the CPU seconds of
//! each label.  tenants [SECONDS]
#[path = "../../lib/label/rust/ascribe.rs"]
mod ascribe;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;

#[repr(C)]
struct Timespec {
    s: i64,
    ns: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, t: *mut Timespec) -> i32;
}

fn cpu() -> f64 {
    let mut t = Timespec { s: 0, ns: 0 };
    unsafe { clock_gettime(3 /* CLOCK_THREAD_CPUTIME_ID */, &mut t) };
    t.s as f64 + t.ns as f64 / 1e9
}

fn burn(seconds: f64) -> f64 {
    let begin = cpu();
    while cpu() < begin + seconds {}
    cpu() - begin
}

fn serve(tenant: &'static str, seconds: f64) -> thread::JoinHandle<(f64, f64)> {
    let work = move || {
        let labelled = {
            let _l = ascribe::label("tenant", tenant);
            let _q = ascribe::label_int("query_id", 7);
            burn(seconds)
        };
        (labelled, burn(seconds / 10.0))
    };
    thread::Builder::new().name(tenant.to_string()).spawn(work).unwrap()
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

async fn task(tenant: &'static str, seconds: f64) -> f64 {
    let _l = ascribe::label("tenant", tenant);
    let mut used = 0.0;
    for _ in 0..20 {
        used += burn(seconds / 20.0);
        Yield(false).await;
    }
    used
}

fn waker() -> Waker {
    fn clone(_: *const ()) -> RawWaker {
        RawWaker::new(ptr::null(), &TABLE)
    }
    fn nothing(_: *const ()) {}
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    unsafe { Waker::from_raw(clone(ptr::null())) }
}

fn main() {
    let s: f64 = std::env::args().nth(1).map_or(0.5, |a| a.parse().unwrap());
    let (a, b) = (serve("a", 3.0 * s), serve("b", s));
    let (a, b) = (a.join().unwrap(), b.join().unwrap());
    let mut tasks = [
        Some(ascribe::carry(task("task-a", 3.0 * s))),
        Some(ascribe::carry(task("task-b", s))),
    ];
    let (waker, mut used) = (waker(), [0.0; 2]);
    while tasks.iter().any(|t| t.is_some()) {
        for (i, slot) in tasks.iter_mut().enumerate() {
            if let Some(t) = slot {
                if let Poll::Ready(u) = Pin::new(t).poll(&mut Context::from_waker(&waker)) {
                    used[i] = u;
                    *slot = None;
                }
            }
        }
    }
    println!(
        "{{\"a\": {}, \"b\": {}, \"none\": {}, \"task-a\": {}, \"task-b\": {}}}",
        a.0, b.0, a.1 + b.1, used[0], used[1]
    );
}
