! SPDX-License-Identifier: Apache-2.0
! The two functions in Fortran, as module procedures; truth.h is what calls them (other.c).
module parts
  use iso_c_binding
contains
  subroutine three(n) ! <three>
    integer, intent(in) :: n
    integer(c_int64_t), save, volatile :: sink = 1
    integer(c_int64_t) :: x
    integer :: i
    x = sink + n
    do i = 1, n * 800
      x = ieor(x * 1664525_c_int64_t + 1, ishft(x, -33))
    end do
    sink = x
  end subroutine ! </three>

  subroutine one(n) ! <one>
    integer, intent(in) :: n
    integer(c_int64_t), save, volatile :: sink = 1
    integer(c_int64_t) :: x
    integer :: i
    x = sink + n
    do i = 1, n * 800
      x = ieor(x * 22695477_c_int64_t + 1, ishft(x, -31))
    end do
    sink = x
  end subroutine ! </one>

  subroutine call_three(n) bind(c)
    integer(c_int), value :: n
    integer, volatile :: kept
    kept = n
    call three(kept)
    kept = 0
  end subroutine

  subroutine call_one(n) bind(c)
    integer(c_int), value :: n
    integer, volatile :: kept
    kept = n
    call one(kept)
    kept = 0
  end subroutine
end module
