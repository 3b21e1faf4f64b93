# SPDX-License-Identifier: Apache-2.0
# Of samples: all, named, chains (whole ones), three and one (in each part). The share of `three` is
# `truth` by the program's clock, within three standard deviations and a tolerance. `least` of all
# samples are in the two parts.
took = three + one
share = three / max(took, 1)
print('%d samples, %d in both, named %.1f%%, whole chains %.1f%%, share %.3f for %.3f' %
      (all, took, 100 * named / max(all, 1), 100 * chains / max(took, 1), share, truth))
sd = (truth * (1 - truth) / max(took, 1)) ** .5
sys.exit(not (all > 500 and named >= .97 * all and chains >= .97 * took and took >= least * all and
              abs(share - truth) < 3 * sd + tolerance))
