(* SPDX-License-Identifier: Apache-2.0 *)
(* The two functions in OCaml; truth.h is what calls them (other.c, ocaml.c). *)
let three n = (* <three> *)
  let x = ref n in
  for i = 1 to n * 800 do
    x := (!x * 1664525) + (!x lsr 33) + i
  done;
  !x
[@@inline never] (* </three> *)

let one n = (* <one> *)
  let x = ref n in
  for i = 1 to n * 800 do
    x := (!x * 22695477) + (!x lsr 31) + i
  done;
  !x
[@@inline never] (* </one> *)

let call_three n = Sys.opaque_identity (three n + 1)
let call_one n = Sys.opaque_identity (one n + 1)
let () = Callback.register "three" call_three
let () = Callback.register "one" call_one
