"""What sim/python/pipesim/device.py makes of times: rates with closed forms, and an H100's recorded
times. Needs no PyTorch, of which a stand-in is imported."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def load_device():
    torch = types.ModuleType("torch")
    attention = types.ModuleType("torch.nn.attention")
    attention.SDPBackend = types.SimpleNamespace(CUDNN_ATTENTION=1, FLASH_ATTENTION=2)
    attention.sdpa_kernel = None
    nn = types.ModuleType("torch.nn")
    nn.functional, torch.nn = None, nn
    stand_ins = {"torch": torch, "torch.nn": nn, "torch.nn.attention": attention}
    spec = importlib.util.spec_from_file_location("device", ROOT / "sim/python/pipesim/device.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, stand_ins):
        spec.loader.exec_module(module)
    return module


device = load_device()


def recorded():
    lines = (ROOT / "bench/gpu/results/h100_device.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one.get("what") == "kernel"]


def number(fact):
    return float(fact["value"].rstrip("TFLOP/sB"))


class Rates(unittest.TestCase):
    def test_a_line_is_found_again(self):
        rate, ramp = 8e14, 400
        points = [(k, 2.0 * k * 1e6, 1e3 * 2.0 * k * 1e6 / rate * (1 + ramp / k)) for k in (512, 1024, 8192)]
        found, found_ramp = device.rate_and_ramp(points)
        self.assertAlmostEqual(found / rate, 1, places=9)
        self.assertEqual(found_ramp, ramp)

    def test_no_ramp_where_small_sizes_are_faster(self):
        points = [(k, 1e12, 1 + k / 1e6) for k in (512, 8192)]
        self.assertEqual(device.rate_and_ramp(points)[1], 0)

    def test_an_h100_has_its_presets_rates(self):
        kernels = device.rates_of(recorded())
        preset = json.loads((ROOT / "sim/cost/hardware/devices/h100-sxm-80gb.json").read_text())["kernels"]
        for key, most in (("product_rate", 0.06), ("stream", 0.04), ("norm", 0.08), ("optimizer", 0.1)):
            self.assertLess(abs(number(kernels[key]) / number(preset[key]) - 1), most, key)
        self.assertLess(abs(kernels["sustained"]["value"] - preset["sustained"]["value"]), 0.05)
        self.assertIn("cudnn", kernels["attention"])

    def test_pipesim_predicts_with_the_file(self):
        file = device.device_file("my H100", "a test", 85017493504, 132, recorded())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mine.json"
            path.write_text(json.dumps(file))
            command = [os.environ["PIPESIM"], "--cluster", path, "--model", "gpt2-xl", "--schedule", "1f1b",
                       "--stages", "1", "--microbatches", "4", "--json"]
            mine = json.loads(subprocess.check_output(command))
            command[2] = "dgx-h100"
            preset = json.loads(subprocess.check_output([*command, "--software", "pytorch"]))
        self.assertLess(abs(mine["makespan_ns"] / preset["makespan_ns"] - 1), 0.1)
        self.assertIsNone(mine["error_band"])


class Refusals(unittest.TestCase):
    def test_a_hot_gpu_is_named(self):
        state = {"when": "after products", "clocks_event_reasons.active": "0x0000000000000040"}
        with self.assertRaisesRegex(device.Refused, "H100 throttles after products: heat, by hardware"):
            device.refuse_throttled("H100", state)

    def test_a_power_cap_is_what_trainings_run_under(self):
        device.refuse_throttled("H100", {"when": "before", "clocks_event_reasons.active": "0x4"})


if __name__ == "__main__":
    unittest.main()
