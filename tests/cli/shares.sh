#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What each flag is a share of: waits for those of waits, the other stored samples for those of
# samples.
. "$(dirname "$0")/lib.bash"

"$ascribe" stat store --json >stat.json
"$ascribe" stat store >stat.txt
"$ascribe" report store >report.txt 2>footer.txt
"$ascribe" report store --where '{tenant="a"}' >selected.txt 2>/dev/null
cat >check.py <<'PY'
import json, re
stat = json.load(open('stat.json'))
n, of, stored = stat['flagged'], stat['flagged_of'], stat['stored']
assert 0 < n['waits'] < stored and n['wait_parts_full'] > stored, n
text = {l.split()[0]: l for l in open('stat.txt') if l.startswith('  ')}
footer = open('footer.txt').read()
base = {'unlabelled': stored - n['waits'], 'idle': stored - n['waits'], 'wait_summed': n['waits'], 'waits': stored,
        'truncated': stored - n['waits']}
for name, whole in base.items():
    assert of[name] == whole, (name, of[name], whole)
    assert f' {100 * n[name] / whole:.3f}% ' in text[name], (text[name], whole)
# Parts have no share, neither here nor there.
assert of['wait_parts_full'] == 0
assert not re.search(r'wait_parts_full +\d+ +[\d.]+%', text['wait_parts_full']), text['wait_parts_full']
# One line for what was lost; more where it is much. Nothing in `stat` is zero.
assert footer == f"complete: {stored:,} of {stat['fired']:,} samples; {sum(stat['lost'].values())} lost, {stat['lost']['idle_not_run']} of them while idle\n", footer
assert {k for k, v in {**n, **stat['lost']}.items() if v} == set(text), text
assert all(float(p) <= 100 for p in re.findall(r'([\d.]+)%', footer + ''.join(text.values()))), footer
# Idle CPUs are those of the host: without a share where a selector leaves a part of it.
assert re.search(r'idle CPUs left out: \d+ samples \([\d.]+%\)', open('report.txt').read())
assert re.search(r'idle CPUs left out: \d+ samples$', open('selected.txt').read(), re.M)
PY
ok "shares in stat, in its JSON, and in a report's last lines" python3 check.py
finish
