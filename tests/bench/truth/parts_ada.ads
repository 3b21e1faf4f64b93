--  SPDX-License-Identifier: Apache-2.0
with Interfaces.C;
package Parts_Ada is
   procedure Call_Three (N : Interfaces.C.unsigned) with Export, Convention => C, External_Name => "call_three";
   procedure Call_One (N : Interfaces.C.unsigned) with Export, Convention => C, External_Name => "call_one";
end Parts_Ada;
