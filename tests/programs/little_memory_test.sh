#!/usr/bin/env bash
# little_memory_test.sh TANDEM GRAPH DEMO: with room for the values of a Softmax of 60 million numbers
# (0.24 GB each), and not for what it computes between them, the step fails and says where.
set -uo pipefail

tandem=$1
graph=$2
demo=$3
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

message=$(
  ulimit -v 600000
  TANDEM_NUM_THREADS=1 "$tandem" run "$graph" --target=y 2>&1 >/dev/null
)
code=$?
if ((code != 1)); then
  echo "the program ended with $code: $message" >&2
  exit 1
fi
if ! grep -q "no memory .*{{node y}}" <<<"$message"; then
  echo "the message does not say what is wrong: $message" >&2
  exit 1
fi
# A file that does not fit into memory: 1.2 million images, all of them holes.
python3 - "$data" <<'END' || exit 1
import struct, sys
for name, count in (("train", 1200000), ("t10k", 10)):
    with open(f"{sys.argv[1]}/{name}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28))
        file.truncate(16 + count * 28 * 28)
    with open(f"{sys.argv[1]}/{name}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, count))
        file.truncate(8 + count)
END
message=$(
  ulimit -v 900000
  "$demo" --data="$data" --model=mlp --strategy=one_device --epochs=1 2>&1 >/dev/null
)
code=$?
if ((code != 1)) || ! grep -q "demo: .*no memory" <<<"$message"; then
  echo "the demo ended with $code: $message" >&2
  exit 1
fi
echo "the step failed, the program did not crash"
