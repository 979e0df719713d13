// pipeexec: trains a model by a pipeline schedule, and measures it.
#include <malloc.h>

#include "exec/cli/command.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program("pipeexec",
                      "pipeexec trains a model by a pipeline schedule, one rank a stage, and\n"
                      "measures when every action ran and what memory it held.",
                      PIPESIM_VERSION);
  exec::Flags flags;
  exec::add_all_flags(program, flags);
  program.set_footer(
      "Without --transport, ranks are the processes that mpirun has started, or else\n"
      "--stages threads of this one. With --transport nccl (rccl for HIP) they are\n"
      "processes of MPI, too, and results go from GPU to GPU; that has run on\n"
      "emulated GPUs alone so far.\n"
      "\n"
      "--faults puts an emulated device, or a training on the CPU, wrong on purpose, to\n"
      "see whether `pipesim compare` finds it: B@stage2=x1.4 (each B of stage 2 takes\n"
      "1.4 times as long), 2B5=x3 (that one does), launch@rank1=300us (rank 1 starts\n"
      "everything later), pause@2B5=20ms (before that one), jitter=5%, jitter@rank1=5%.\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8\n"
      "  mpirun -n 4 pipeexec --schedule interleaved --microbatches 8 --trace run.json\n"
      "  pipeexec --schedule zb-h1 --stages 4 --microbatches 8 --verify\n"
      "  mpirun -n 2 pipeexec --schedule my_order.csv --data my_text.txt --seed 7");
#ifdef M_ARENA_MAX
  // glibc gives threads arenas of their own, which hand large blocks back to the
  // system whenever they are freed: then a matrix product of a rank that is a
  // thread spends a fifth of its time on page faults.
  ::mallopt(M_ARENA_MAX, 1);
#endif
  const auto launch = exec::launched_by_mpi();
  program.set_work([&] { exec::run_command(flags, launch); });
  if (!launch || launch->rank == 0) return program.run(argc, argv);
  return program.run(argc, argv, exec::pass_on);
}
