# Reads one test.xml, as GoogleTest or Bazel writes it, and prints one line a test case:
#
#   passed|failed|skipped <tab> Suite.Case
#
# GoogleTest writes its file when the last case has ended. For a program that died before, Bazel
# writes one with a single case and the log inside; then the log tells what had passed and which
# case was running.

function attribute(line, name,    value) {
  if (!match(line, " " name "=\"[^\"]*\"")) return ""
  value = substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
  gsub(/&lt;/, "<", value); gsub(/&gt;/, ">", value); gsub(/&quot;/, "\"", value)
  gsub(/&apos;/, "'", value); gsub(/&amp;/, "\\&", value)
  return value
}

function finish() {
  if (in_case && !died) print state "\t" name
  in_case = 0
}

# "[       OK ] Suite.Case (3 ms)" -> "Suite.Case"
function logged_name(line) {
  sub(/^\[[^]]*\] /, "", line)
  sub(/(, where .*)? \([0-9]+ ms\).*$/, "", line)
  sub(/\]\]>.*$/, "", line)
  return line
}

/^ *<testcase / {
  finish()
  in_case = 1
  state = "passed"
  name = attribute($0, "name")
  if (attribute($0, "classname") != "") name = attribute($0, "classname") "." name
  result = attribute($0, "result")
  if (result == "skipped" || result == "suppressed" || attribute($0, "status") == "notrun") {
    state = "skipped"
  }
  if (/<error /) { died = 1; reason = attribute($0, "message"); sub(/.*<error/, " ") }
  if (/\/>[ ]*$/ && !died) { finish(); next }
}

in_case && /^ *<failure / { state = "failed" }
in_case && /^ *<skipped / && state != "failed" { state = "skipped" }
/<\/testcase>/ && !died { finish() }

died && /^\[ RUN      \] / { running = logged_name($0) }
died && /^\[       OK \] .* ms\)/ { print "passed\t" logged_name($0); running = "" }
died && /^\[  SKIPPED \] .* ms\)/ { print "skipped\t" logged_name($0); running = "" }
died && /^\[  FAILED  \] .* ms\)/ { print "failed\t" logged_name($0); running = ""; reported = 1 }

END {
  finish()
  if (!died) exit
  if (running != "") print "failed\t" running " (" reason " while it ran)"
  else if (!reported) print "failed\t" name " (" reason ")"
}
