"""What bench.py makes of figures; nothing is timed."""

import os
import sys
import types
import unittest
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # pylint: disable=wrong-import-position
import plot  # pylint: disable=wrong-import-position


def figures(median, memory=100.0, start=1.0):
    return {"median_ms": median, "p10_ms": 0.9 * median, "p90_ms": 1.1 * median, "steps": 10,
            "peak_mb": memory, "first_step_s": start}


class FakeBench(bench.Bench):
    """Its programs answer with what `answers` says, by name and model, each time the next."""

    def __init__(self, answers, **options):
        defaults = {"quick": False, "rounds": 2, "seconds": 1, "scratch": "", "quickest": {}}
        super().__init__(types.SimpleNamespace(**{**defaults, **options}))
        self.answers = answers

    def say(self, text):
        pass

    def answer(self, name, model):
        answer = self.answers[name, model].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, answer.get("first_step_s")

    def tandem(self, model, threads, arguments):
        return self.answer("tandem", model)

    def peer(self, name, model, threads, arguments):
        return self.answer(name, model)


MODEL = "mlp-b64"


class BenchTest(unittest.TestCase):
    def test_ratio_is_to_the_quickest_peer_round_by_round(self):
        fake = FakeBench({("tandem", MODEL): [figures(1.0), figures(3.0)],
                          ("torch eager", MODEL): [figures(2.0), figures(4.0)],
                          ("tensorflow graph", MODEL): [figures(5.0), figures(5.0)]})
        line = fake.measure(MODEL, 2, ["torch eager", "tensorflow graph"], inference=False)
        self.assertEqual(line["best_peer"], "torch eager")
        self.assertEqual(line["tandem_ms"], 2.0)
        self.assertEqual(line["best_peer_ms"], 3.0)
        self.assertEqual(line["ratio"], (0.5 + 0.75) / 2)
        self.assertEqual((line["ratio_low"], line["ratio_high"]), (0.5, 0.75))
        self.assertEqual(line["aim"], 0.35)

    def test_a_peer_that_fails_is_reported_and_left_out(self):
        fake = FakeBench({("tandem", MODEL): [figures(1.0), figures(1.0)],
                          ("torch compile", MODEL): [bench.Failed("no compiler")] * 2,
                          ("torch eager", MODEL): [figures(2.0), figures(2.0)]})
        line = fake.measure(MODEL, 1, ["torch compile", "torch eager"], inference=True)
        self.assertEqual(line["best_peer"], "torch eager")
        self.assertNotIn("aim", line)
        self.assertEqual(len(fake.failures), 2)

    def test_models_that_do_not_agree_are_not_timed(self):
        losses = [2.0, 1.5]
        fake = FakeBench({("tandem", MODEL): [{"losses": losses}],
                          ("tensorflow graph", MODEL): [{"losses": [2.0, 1.5001]}],
                          ("tensorflow xla", MODEL): [{"losses": [2.0, 1.6]}],
                          ("torch eager", MODEL): [{"losses": [2.0]}],
                          ("torch compile", MODEL): [{"losses": [2.0, float("nan")]}]})
        self.assertEqual(fake.check(MODEL), ["tensorflow graph"])
        self.assertEqual(len(fake.failures), 3)

    def test_memory_and_start_come_from_training_runs(self):
        fake = FakeBench({("tandem", MODEL): [figures(1.0, 50, 0.1)] * 2,
                          ("tensorflow graph", MODEL): [figures(2.0, 500, 4.0)] * 2,
                          ("torch eager", MODEL): [figures(3.0, 400, 2.0)] * 2})
        line = fake.measure(MODEL, 2, ["tensorflow graph", "torch eager"], inference=False)
        memory, start = bench.derived([line])
        self.assertEqual(memory["ratio"], 0.1)
        self.assertEqual((start["best_peer"], start["ratio"]), ("torch eager", 0.05))
        self.assertEqual(bench.derived([{**line, "inference": True}]), [])

    def test_a_program_that_fails_says_why(self):
        with self.assertRaisesRegex(bench.Failed, "ended with 3: broken"):
            bench.run([sys.executable, "-c", "import sys; sys.stderr.write('broken'); sys.exit(3)"])
        result, first_step = bench.run(
            [sys.executable, "-c", "print('first step'); print('{\"median_ms\": 2}')"])
        self.assertEqual(result, {"median_ms": 2})
        self.assertGreater(first_step, 0)

    def test_table_and_plot_show_every_line(self):
        fake = FakeBench({("tandem", MODEL): [figures(1.0)] * 2,
                          ("torch eager", MODEL): [figures(0.5)] * 2})
        results = [fake.measure(MODEL, 2, ["torch eager"], inference=False),
                   {"name": "run of one op", "tandem_ns": 700.0, "aim_ns": 2000,
                    "best_peer": "plain call", "best_peer_ns": 50.0, "ratio": 14.0}]
        text = bench.table(results)
        self.assertIn("| train mlp-b64 | 2 | 1 ms | 0.9 to 1.1 | torch eager | 0.5 ms | 2.00 |", text)
        self.assertIn("| run of one op |  | 700 ns |", text)
        self.assertIn("2000 ns", text)
        svg = plot.bars(results, {"machine": "a <machine>", "commit": "c", "date": "d"})
        texts = xml.dom.minidom.parseString(svg).getElementsByTagName("text")
        self.assertIn("train mlp-b64, 2 threads", [each.firstChild.data for each in texts])


if __name__ == "__main__":
    unittest.main()
