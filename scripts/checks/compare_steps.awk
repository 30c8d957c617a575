#!/usr/bin/awk -f
# Prints the steps of .ci/run with their processor time and wall-clock time, and says which have grown by more
# than a fifth since .ci/steps.tsv was recorded, and which did not run. Machines differ by a factor of three,
# so a step is compared with the time of all steps together, here and there, or with the median of their
# ratios: a large step that has grown alone must not hide behind itself.
# Usage: compare_steps.awk RECORDED.tsv NOW.tsv
#   lines of STEP, seconds of processor time, seconds by the clock; tabs between
BEGIN { FS = "\t" }
FILENAME == ARGV[1] {
  before[$1] = $2
  next
}
{
  name[++count] = $1
  now[count] = $2
  clock[count] = $3
  sum += $2
  clocks += $3
  if ($1 in before) {
    shared += $2
    shared_before += before[$1]
    ran[$1] = 1
    if (before[$1] >= 20) {  # shorter ones vary
      at = ++ratios
      for (; at > 1 && ratio[at - 1] > $2 / before[$1]; --at) ratio[at] = ratio[at - 1]
      ratio[at] = $2 / before[$1]
    }
  }
}
END {
  scale = shared_before > 0 && shared > 0 ? shared / shared_before : 1
  median = ratio[int((ratios + 1) / 2)]
  if (ratios && median > 0 && median < scale) scale = median
  printf "%9s %9s %10s  (of a machine %.2f times as slow as that of .ci/steps.tsv)\n", "processor", "clock", "recorded", scale
  for (i = 1; i <= count; ++i) {
    old = name[i] in before ? sprintf("%8.0f s", before[name[i]] * scale) : "       new"
    # Differences of five seconds are noise.
    grown = name[i] in before && now[i] > 1.2 * before[name[i]] * scale + 5
    printf "%7d s %7d s %s  %s%s\n", now[i], clock[i], old, name[i], grown ? "   !!!! more than a fifth longer" : ""
  }
  for (step in before)
    if (!(step in ran)) printf "!!!! %s is in .ci/steps.tsv and did not run\n", step
  printf "%7d s %7d s %s  all\n", sum, clocks, sprintf("%8.0f s", shared_before * scale)
}
