"""bench.py: Tandem, TensorFlow and PyTorch in turn on the same work; tools/bench starts it and explains
the options.

Every measurement is a process of its own. A round runs all systems one after the other, so that what the
machine does meanwhile hits all of them; figures are medians over the rounds, and what counts is the ratio
of a round's figures, of which the median is taken, too.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import plot

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {
    "tensorflow": ("tensorflow_steps.py", ["graph", "xla"]),
    "torch": ("torch_steps.py", ["eager", "channels_last", "compile"]),
}
CONVOLUTIONAL = ("cnn", "lenet", "resnet")
# Which peer is the quickest, until a full run on this machine has said it.
QUICKEST = {
    "cnn64-b64": "tensorflow graph", "mlp-b64": "torch eager", "lenet-b4": "torch channels_last",
    "lenet-b64": "torch channels_last", "resnet8-b64": "torch compile",
    "lstm128-b32-t64": "torch compile", "gpt4x128-b16-t128": "torch compile",
}
# Ratios to the quickest peer that are aimed at, with two threads.
AIMS = {
    "cnn64-b64": 0.50, "mlp-b64": 0.35, "lenet-b4": 0.25, "lenet-b64": 0.50, "resnet8-b64": 0.65,
    "lstm128-b32-t64": 0.65, "gpt4x128-b16-t128": 0.75,
}
INFERENCE_AIM = 0.30
MEMORY_AIM = 0.35
START_AIM = 0.10
AGREEMENT = 1e-3


class Failed(Exception):
    """A program that was measured ended with an error."""


def run(command, environment=None):
    """Runs a program of ours or a peer's: what it printed as JSON, and after how many seconds its first
    step was done (None: it printed no such line)."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(environment or {})})
    first_step, result = None, {}
    try:
        for line in process.stdout:
            if line.strip() == "first step":
                first_step = time.monotonic() - begin
            elif line.startswith("{"):
                result = json.loads(line)
        errors = process.stderr.read()
        if process.wait() != 0:
            raise Failed(f"{' '.join(command)} ended with {process.returncode}: "
                         f"{errors.strip()[-400:]}")
    finally:
        process.kill()
        process.wait()
    return result, first_step


class Bench:
    def __init__(self, options):
        self.options = options
        self.scratch = options.scratch
        self.failures = []
        self.done = 0
        self.total = 0

    def say(self, text):
        print(f"[{self.done}/{self.total}] {text}", file=sys.stderr, flush=True)

    def tandem(self, model, threads, arguments):
        return run([self.options.program, f"--model={model}", *arguments],
                   {"TANDEM_NUM_THREADS": str(threads)})

    def peer(self, name, model, threads, arguments):
        system, variant = name.split()
        python = {"tensorflow": self.options.tensorflow, "torch": self.options.torch}[system]
        return run([python, os.path.join(HERE, "peers", PEERS[system][0]), f"--model={model}",
                    f"--variant={variant}", f"--threads={threads}",
                    f"--start={self.start_file(model)}", *arguments],
                   {"OMP_NUM_THREADS": str(threads)})

    def start_file(self, model):
        return os.path.join(self.scratch, f"{model}.npz")

    def peers_of(self, model):
        if self.options.quick:
            return [self.options.quickest.get(model, QUICKEST[model])]
        names = []
        for system, (_, variants) in PEERS.items():
            for variant in variants:
                if variant == "channels_last" and not model.startswith(CONVOLUTIONAL):
                    continue
                names.append(f"{system} {variant}")
        return names

    def check(self, model):
        """The peers that, from the same weights, come to the same losses."""
        losses = self.tandem(model, 2, [f"--save={self.start_file(model)}"])[0]["losses"]
        agreeing = []
        for name in self.peers_of(model):
            try:
                theirs = self.peer(name, model, 2, ["--check"])[0]["losses"]
            except Failed as error:
                self.fail(f"{model}: {name} could not be run: {error}")
                continue
            difference = (abs(losses[-1] - theirs[-1]) / abs(theirs[-1])
                          if len(theirs) == len(losses) else float("nan"))
            if not difference < AGREEMENT:  # Nor is one that is not a number.
                self.fail(f"{model}: after {len(losses)} steps from the same weights the loss is "
                          f"{losses[-1]:.6f}, of {name} {theirs[-1]:.6f}; they differ by "
                          f"{difference:.1e}, more than {AGREEMENT:.0e}: not timed")
                continue
            agreeing.append(name)
        return agreeing

    def fail(self, text):
        self.failures.append(text)
        self.say(text)

    def measure(self, model, threads, peers, inference):
        """One line of results. Ratios are below 1 where Tandem is quicker."""
        extra = [f"--seconds={self.options.seconds}"] + (["--inference"] if inference else [])
        rounds = []
        for _ in range(self.options.rounds):
            figures = {}
            for name in ["tandem", *peers]:
                self.say(f"{model}, {threads} threads{', inference' if inference else ''}: {name}")
                self.done += 1
                try:
                    result, first_step = (self.tandem(model, threads, extra) if name == "tandem"
                                          else self.peer(name, model, threads, extra))
                except Failed as error:
                    self.fail(str(error))
                    continue
                figures[name] = {**result, "first_step_s": first_step}
            rounds.append(figures)
        return self.line(model, threads, inference, rounds)

    def line(self, model, threads, inference, rounds):
        def median(name, what):
            values = [figures[name][what] for figures in rounds if name in figures]
            return statistics.median(values) if values else None

        names = sorted({name for figures in rounds for name in figures} - {"tandem"})
        line = {
            "name": f"{'infer' if inference else 'train'} {model}",
            "model": model, "threads": threads, "inference": inference,
            "tandem_ms": median("tandem", "median_ms"), "tandem_p10_ms": median("tandem", "p10_ms"),
            "tandem_p90_ms": median("tandem", "p90_ms"),
            "tandem_peak_mb": median("tandem", "peak_mb"),
            "tandem_first_step_s": median("tandem", "first_step_s"),
            "peers": {name: {what: median(name, what) for what in
                             ("median_ms", "p10_ms", "p90_ms", "peak_mb", "first_step_s")}
                      for name in names},
        }
        if threads == 2:
            line["aim"] = INFERENCE_AIM if inference else AIMS[model]
        if names and line["tandem_ms"] is not None:
            best = min(names, key=lambda name: line["peers"][name]["median_ms"])
            ratios = [figures["tandem"]["median_ms"] / figures[best]["median_ms"]
                      for figures in rounds if "tandem" in figures and best in figures]
            line.update(best_peer=best, best_peer_ms=line["peers"][best]["median_ms"],
                        ratio=statistics.median(ratios) if ratios else None,
                        ratio_low=min(ratios, default=None), ratio_high=max(ratios, default=None))
        return line


def derived(lines):
    """What the same runs say of memory and of the time to the first step."""
    results = []
    for line in lines:
        if line["inference"] or line["threads"] != 2 or not line["peers"]:
            continue
        tensorflow = [peer["peak_mb"] for name, peer in line["peers"].items()
                      if name.startswith("tensorflow") and peer["peak_mb"]]
        if tensorflow and line["tandem_peak_mb"]:
            results.append({"name": f"peak memory {line['model']}", "aim": MEMORY_AIM,
                            "tandem_mb": line["tandem_peak_mb"], "best_peer": "tensorflow",
                            "best_peer_mb": min(tensorflow),
                            "ratio": line["tandem_peak_mb"] / min(tensorflow)})
        starts = {name: peer["first_step_s"] for name, peer in line["peers"].items()
                  if peer["first_step_s"]}
        if starts and line["tandem_first_step_s"]:
            best = min(starts, key=starts.get)
            results.append({"name": f"start to first step {line['model']}", "aim": START_AIM,
                            "tandem_s": line["tandem_first_step_s"], "best_peer": best,
                            "best_peer_s": starts[best],
                            "ratio": line["tandem_first_step_s"] / starts[best]})
    return results


def mirrored(bench, model):
    """Two mirrored replicas beside one replica with two threads, of the same global batch."""
    rounds = []
    for _ in range(bench.options.rounds):
        seconds = f"--seconds={bench.options.seconds}"
        bench.say(f"{model}: two mirrored replicas beside one device")
        bench.done += 2
        one = bench.tandem(model, 2, [seconds])[0]["median_ms"]
        two = bench.tandem(model, 2, [seconds, "--replicas=2"])[0]["median_ms"]
        rounds.append((two, one))
    return {"name": f"mirrored on 2 {model}", "aim": 1.0, "best_peer": "tandem, one device",
            "tandem_ms": statistics.median(two for two, _ in rounds),
            "best_peer_ms": statistics.median(one for _, one in rounds),
            "ratio": statistics.median(two / one for two, one in rounds)}


def overheads(options):
    """The cost of a run and of an op, from the benchmark of sessions."""
    output = subprocess.run(
        [options.session_benchmark, "--benchmark_format=json", "--benchmark_repetitions=3",
         "--benchmark_report_aggregates_only=true"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    nanoseconds = {entry["run_name"]: entry["real_time"]
                   for entry in json.loads(output)["benchmarks"]
                   if entry.get("aggregate_name") == "median"}
    call = nanoseconds["BM_PlainCall"]
    results = []
    for name, benchmark, per, aim in (
            ("run of one op", "BM_OneAdd", 1, 2000),
            ("run of one op, names resolved", "BM_OneAddCallable", 1, 2000),
            ("an op in a chain of 10,000", "BM_Chain/10000", 10000, 100)):
        value = nanoseconds[benchmark] / per
        results.append({"name": name, "tandem_ns": value, "aim_ns": aim,
                        "best_peer": "plain call", "best_peer_ns": call, "ratio": value / call})
    return results


def table(results):
    def cell(value, form="{:.2f}"):
        return "" if value is None else form.format(value)

    rows = [["what", "threads", "Tandem", "10 % to 90 %", "quickest peer", "its time", "ratio",
             "of the rounds", "aim"]]
    for result in results:
        unit = next((u for u in ("ms", "mb", "s", "ns") if f"tandem_{u}" in result), "ms")
        shown = {"mb": "MB"}.get(unit, unit)
        form = "{:.3g} " + shown
        spread = ("" if result.get("tandem_p10_ms") is None else
                  f"{result['tandem_p10_ms']:.3g} to {result['tandem_p90_ms']:.3g}")
        of_rounds = ("" if result.get("ratio_low") is None else
                     f"{result['ratio_low']:.2f} to {result['ratio_high']:.2f}")
        aim = cell(result.get("aim")) or cell(result.get("aim_ns"), "{:.0f} ns")
        rows.append([result["name"], str(result.get("threads", "")),
                     cell(result.get(f"tandem_{unit}"), form), spread, result.get("best_peer", ""),
                     cell(result.get(f"best_peer_{unit}"), form), cell(result.get("ratio")),
                     of_rounds, aim])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = {line.split(":", 1)[1].strip() for line in file if line.startswith("model name")}
    return f"{os.cpu_count()} x {', '.join(sorted(models)) or platform.machine()}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("program", "session_benchmark", "scratch", "tensorflow", "torch", "winners"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--models", default="")
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no_inference", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--svg", default="")
    options = parser.parse_args()
    names = subprocess.run([options.program, "--list"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.split()
    options.models = [name for name in options.models.split(",") if name] or names
    unknown = [name for name in options.models if name not in names]
    if unknown:
        parser.error(f"--models={','.join(unknown)}: there are {', '.join(names)}")
    try:
        options.threads = [int(each) for each in options.threads.split(",")]
    except ValueError:
        parser.error(f"--threads={options.threads}: numbers with commas between are wanted")
    if options.rounds < 1 or options.seconds <= 0 or min(options.threads) < 1:
        parser.error("--rounds, --seconds and --threads are above 0")
    options.quickest = {}
    if os.path.exists(options.winners):
        with open(options.winners, encoding="utf-8") as file:
            options.quickest = json.load(file)
    if options.quick:
        options.threads, options.rounds, options.no_inference = [2], 1, True
        options.seconds = min(options.seconds, 1)
    return options


def main():
    options = parse()
    bench = Bench(options)
    kinds = 1 if options.no_inference else 2
    bench.total = sum((1 + len(bench.peers_of(model))) * options.rounds * len(options.threads) * kinds
                      for model in options.models)
    bench.total += 0 if options.quick else 2 * options.rounds
    lines = []
    for model in options.models:
        bench.say(f"{model}: does the loss agree with the peers'?")
        peers = bench.check(model)
        for threads in options.threads:
            for inference in [False, True][:kinds]:
                lines.append(bench.measure(model, threads, peers, inference))
    results = lines + derived(lines)
    if not options.quick:
        results.append(mirrored(bench, options.models[0]))
    results += overheads(options)
    report = {"machine": machine(), "commit": options.commit,
              "date": time.strftime("%Y-%m-%d %H:%M"), "rounds": options.rounds,
              "seconds": options.seconds, "results": results, "failures": bench.failures}
    print(f"{report['machine']}, commit {options.commit}, {report['date']}, {options.rounds} rounds of "
          f"{options.seconds:g} s; ratios below 1: Tandem is quicker\n\n{table(results)}")
    for failure in bench.failures:
        print(f"\nfailed: {failure}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot.bars(results, report))
    if not options.quick and 2 in options.threads:
        winners = {line["model"]: line["best_peer"] for line in lines
                   if line["threads"] == 2 and not line["inference"] and "best_peer" in line}
        with open(options.winners, "w", encoding="utf-8") as file:
            json.dump({**options.quickest, **winners}, file)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (Failed, OSError) as error:
        sys.exit(f"tools/bench: {error}")
