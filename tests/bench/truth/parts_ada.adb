--  SPDX-License-Identifier: Apache-2.0
--  The two functions in Ada; truth.h is what calls them (other.c).
with Interfaces; use Interfaces;
package body Parts_Ada is
   Sink : Unsigned_64 := 1 with Volatile;

   procedure Three (N : Unsigned_32) with No_Inline;
   procedure One (N : Unsigned_32) with No_Inline;

   procedure Three (N : Unsigned_32) is --  <three>
      X : Unsigned_64 := Sink + Unsigned_64 (N);
   begin
      for I in 1 .. N * 800 loop
         X := X * 6364136223846793005 + Shift_Right (X, 33);
      end loop;
      Sink := X;
   end Three; --  </three>

   procedure One (N : Unsigned_32) is --  <one>
      X : Unsigned_64 := Sink + Unsigned_64 (N);
   begin
      for I in 1 .. N * 800 loop
         X := X * 3935559000370003845 + Shift_Right (X, 31);
      end loop;
      Sink := X;
   end One; --  </one>

   procedure Call_Three (N : Interfaces.C.unsigned) is
   begin
      Three (Unsigned_32 (N));
      Sink := Sink + 1;
   end Call_Three;

   procedure Call_One (N : Interfaces.C.unsigned) is
   begin
      One (Unsigned_32 (N));
      Sink := Sink + 1;
   end Call_One;
end Parts_Ada;
