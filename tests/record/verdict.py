# SPDX-License-Identifier: Apache-2.0
# What a recording of a program of two parts says, after judge.py of a test, which sets `least` and
# `tolerance`: FOLDED DEPTH SHARE, and more. sample_of() of judge.py takes the frames of a sample, root
# first. It returns whether all of them are named, the part ('three', 'one', or neither), and whether
# the chain is whole; or None for a sample that does not count. The share of `three` is to be SHARE by
# the program's clock, within three standard deviations and a tolerance. `least` of all samples are in
# the two parts.
import sys
depth, truth = int(sys.argv[2]), float(sys.argv[3])
all = named = chains = three = one = 0
for line in open(sys.argv[1]):
    stack, n = line.rstrip('\n').rsplit(' ', 1)
    sample = sample_of(stack.split(';'))
    if not sample:
        continue
    n = int(n)
    all += n
    named += n * sample[0]
    three += n * (sample[1] == 'three')
    one += n * (sample[1] == 'one')
    chains += n * (sample[1] in ('three', 'one') and sample[2])
took = three + one
share = three / max(took, 1)
print('%d samples, %d in both, named %.1f%%, whole chains %.1f%%, share %.3f for %.3f' %
      (all, took, 100 * named / max(all, 1), 100 * chains / max(took, 1), share, truth))
sd = (truth * (1 - truth) / max(took, 1)) ** .5
sys.exit(not (all > 500 and named >= .97 * all and chains >= .97 * took and took >= least * all and
              abs(share - truth) < 3 * sd + tolerance))
