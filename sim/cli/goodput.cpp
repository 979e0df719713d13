// `pipesim goodput`: how often to save a checkpoint, and what share of the time trains.
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/goodput_flags.h"
#include "sim/cli/goodput_report.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

void answer_goodput(const GoodputFlags& flags) {
  std::vector<AnsweredJob> all;
  for (GoodputJob& job : goodput_jobs(flags)) {
    Progress progress;
    progress.show("simulating runs that fail");
    GoodputAnswer found = answer(job.question);
    all.push_back({std::move(job), std::move(found)});
  }
  const int width = standard_output().width;
  if (flags.json) {
    print(goodput_json(all));
  } else {
    print(all.size() == 1 ? goodput_report(all.front(), width) : goodput_table(all, width));
  }
}

}  // namespace

void set_up_goodput(CommandLine& command) {
  auto flags = std::make_shared<GoodputFlags>();
  add_goodput_flags(command, *flags);
  command.set_work([flags] { answer_goodput(*flags); });
  command.set_footer(
      "--devices may be a list, 1024,4096,16384: one row each. Then --mtbf is for the\n"
      "first, and scales as 1 / N for the others.\n"
      "\n"
      "A model's checkpoint has 12 bytes per parameter, the weight and Adam's two\n"
      "moments in fp32, and 2 more where --precision computes with 16-bit weights.\n"
      "\n"
      "Failures come at random, at a constant rate. A restart takes\n"
      "--restart, unless another failure hits it; training then resumes from the last\n"
      "save. The best interval is the one with the least expected time (Daly, 2006),\n"
      "found by exact search; Young's sqrt(2 C M) and Daly's estimate are printed, too.\n"
      "\n"
      "With --async-checkpoint training waits only for the copy to the host: equal\n"
      "shares on all devices, at the rate of the --cluster's device, or else\n"
      "25GB/s/device. The next save begins only when one is written; a failure\n"
      "until then falls back to the save before.\n"
      "\n"
      "Examples:\n"
      "  pipesim goodput --model llama-3-70b --devices 1024 --mtbf 7.9h --restart 10min\n"
      "      --storage 100GB/s --iteration-time 12s\n"
      "  pipesim goodput --model gpt3-175b --cluster dgx-a100 --schedule 1f1b\n"
      "      --stages 8 --microbatches 64 --tensor-parallel 8 --devices 64,256,1024\n"
      "      --device-mtbf 5000d --restart 10min --storage 2GB/s/device\n"
      "  pipesim goodput --iteration-time 50ms --mtbf 3s --restart 200ms\n"
      "      --save-time 5ms --interval 20 --work 60s --trials 1 --seed 7 --json");
}

}  // namespace pipesim::cli
