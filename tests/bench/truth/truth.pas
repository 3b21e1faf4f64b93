{ SPDX-License-Identifier: Apache-2.0 }
{ truth.h in Pascal: TRIALS MILLISECONDS FIRST. }
program truth;
{$mode objfpc}{$Q-}{$R-}
uses BaseUnix, SysUtils;

type
  TPart = procedure(n: longword);

function clock_gettime(clock: longint; t: ptimespec): longint; cdecl; external 'c';
function prctl(option: longint; name: pchar; a, b, c: ptruint): longint; cdecl; external 'c';

var
  sink: qword = 1;
  state: longword;

function cpu: double;
var
  t: timespec;
begin
  clock_gettime(3, @t);
  cpu := t.tv_sec + t.tv_nsec / 1e9;
end;

procedure three(n: longword); { <three> }
var
  x: qword;
  i: longword;
begin
  x := sink + n;
  for i := 1 to n * 800 do
    x := x * 1664525 + (x shr 33);
  sink := x;
end; { </three> }

procedure one(n: longword); { <one> }
var
  x: qword;
  i: longword;
begin
  x := sink + n;
  for i := 1 to n * 800 do
    x := x * 22695477 + (x shr 31);
  sink := x;
end; { </one> }

procedure by(part: TPart; n: longword);
begin
  part(n);
  sink := sink + 1;
end;

procedure run(var took: array of double; n: longword);
var
  start, middle: double;
begin
  start := cpu;
  by(@three, 3 * n);
  middle := cpu;
  by(@one, n);
  took[0] := took[0] + middle - start;
  took[1] := took[1] + cpu - middle;
end;

procedure trials(n: longint; seconds: double; first: longint);
var
  i: longint;
  took: array[0..1] of double;
  start, spent: double;
  name: string;
begin
  DefaultFormatSettings.DecimalSeparator := '.';
  state := first + 1;
  for i := first to first + n - 1 do
  begin
    took[0] := 0;
    took[1] := 0;
    name := 'truth.' + IntToStr(i) + #0;
    prctl(15, @name[1], 0, 0, 0);
    start := cpu;
    while cpu - start < seconds do
    begin
      state := state * 1664525 + 1013904223;
      run(took, 20 + (state shr 16) mod 80);
    end;
    spent := cpu - start;
    prctl(15, 'rest', 0, 0, 0);
    writeln('truth.', i, ' ', FloatToStrF(took[0], ffFixed, 15, 9), ' ',
      FloatToStrF(took[1], ffFixed, 15, 9), ' ', FloatToStrF(spent, ffFixed, 15, 9));
  end;
end;

begin
  trials(StrToInt(ParamStr(1)), StrToFloat(ParamStr(2)) / 1e3, StrToInt(ParamStr(3)));
end.
