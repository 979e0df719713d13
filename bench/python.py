"""What calling the simulator from Python costs, beside the same calls in C++, turn by turn.

    python bench/python.py [build/release]

Needs the Python package and predict_bench in the build folder. Prints the time of importing the
package, of a prediction of 1F1B with 8 stages and 64 microbatches by the libraries and from
Python (least of the turns, and the median of the turns' ratios), and of a process for each.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

TURNS, CALLS = 7, 1000


def library(build):
    """Microseconds of a prediction."""
    done = subprocess.run(
        [
            build / "bench" / "predict_bench",
            "--benchmark_filter=predict_whole/8/64",
            "--benchmark_format=json",
            "--benchmark_min_time=0.15",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)["benchmarks"][0]["real_time"]


def in_python(pipesim):
    begin = time.perf_counter()
    for _ in range(CALLS):
        pipesim.predict(schedule="1f1b", stages=8, microbatches=64).makespan_ns
    return (time.perf_counter() - begin) / CALLS * 1e6


def importing(package):
    """Milliseconds that the import adds to starting Python."""

    def start(code):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(package)}, check=True)
        return (time.perf_counter() - begin) * 1e3

    return statistics.median(start("import pipesim") - start("pass") for _ in range(15))


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release").resolve()
    sys.path.insert(0, str(build / "python"))
    import pipesim

    print(f"import pipesim: {importing(build / 'python'):.0f} ms more than Python alone")
    turns = [(library(build), in_python(pipesim)) for _ in range(TURNS)]
    ratio = statistics.median(python / cpp for cpp, python in turns)
    print(
        f"1F1B, 8 stages, 64 microbatches: {min(cpp for cpp, _ in turns):.0f} us by the libraries, "
        f"{min(python for _, python in turns):.0f} us from Python; {ratio:.2f} times"
    )
    begin = time.perf_counter()
    for _ in range(50):
        subprocess.run(
            [
                build / "pipesim",
                "--schedule",
                "1f1b",
                "--stages",
                "8",
                "--microbatches",
                "64",
                "--json",
            ],
            stdout=subprocess.DEVNULL,
            check=True,
        )
    print(f"the same as a process: {(time.perf_counter() - begin) / 50 * 1e6:.0f} us")


if __name__ == "__main__":
    main()
