#include "traces/command/foreign_flags.h"

namespace pipesim {

ForeignFlags trainers_flags() {
  return {{{"--tensor-model-parallel-size", "--tensor-parallel"},
           {"--pipeline-model-parallel-size", "--stages"},
           {"--num-virtual-stages-per-pipeline-rank", "--virtual-stages"},
           {"--seq-length", "--sequence-length"},
           {"--global-batch-size", "--global-batch"},
           {"--tp", "--tensor-parallel"},
           {"--pp", "--stages"},
           {"--vpp", "--virtual-stages"},
           {"--dp", "--data-parallel"},
           {"--mbs", "--micro-batch-size"},
           {"--gpus", "--devices"}},
          {{"--context-parallel-size", "context parallelism"},
           {"--context-parallel", "context parallelism"},
           {"--expert-model-parallel-size", "expert parallelism"},
           {"--expert-parallel", "expert parallelism"}}};
}

}  // namespace pipesim
