// pipeexec: trains a model by a pipeline schedule, and measures it.
#include <malloc.h>

#include <cstdlib>
#include <limits>

#include "exec/cli/checkpoint_command.h"
#include "exec/cli/command.h"
#include "exec/cli/known_names.h"
#include "exec/cli/supervise_command.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program("pipeexec",
                      "pipeexec trains a model by a pipeline schedule, one rank a stage, or a\n"
                      "recommendation model by an overlapped input pipeline, and measures when\n"
                      "every action ran and what memory it held.",
                      PIPESIM_VERSION);
  exec::Flags flags;
  exec::add_all_flags(program, flags);
  program.set_footer(
      "Without --transport, ranks are the processes that mpirun, srun or torchrun has\n"
      "started, or else --stages threads of this one. With --transport nccl (rccl for\n"
      "HIP) they are processes of MPI, too, and results go from GPU to GPU; that has\n"
      "run on emulated GPUs alone so far.\n"
      "\n"
      "Which rank a process is, the first of these says that is there: --rank and\n"
      "--ranks, the variables of mpirun (OMPI_COMM_WORLD_RANK, PMI_RANK), of torchrun\n"
      "(RANK, WORLD_SIZE), of srun (SLURM_PROCID, SLURM_NTASKS). Where rank 0 of\n"
      "--transport tcp listens, --master says, or else MASTER_ADDR and MASTER_PORT, or\n"
      "the port after that where torchrun itself has it. GPUs are taken by the\n"
      "launcher's local rank.\n"
      "\n"
      "--tensor-parallel: each layer is in shards, one per rank: heads, MLP\n"
      "columns, words of the vocabulary. Ranks are numbered by shards first, then by\n"
      "replicas, then by stages; P x D x T are started.\n"
      "\n"
      "--recompute: what is computed once more in backwards instead of being kept.\n"
      "full: each block's forward; or with commas some of attention (scores, softmax,\n"
      "dropout, their product with the values; alone also called selective), norms and\n"
      "activation (what they make of their inputs). Default none.\n"
      "\n"
      "--gather, with --zero 3: for how long a stage has the weights that replicas keep\n"
      "in parts. window: from when it is one of the three that its rank needs next;\n"
      "pass: for each forward and backward, two layers at a time; once: from its first\n"
      "action to its last. Default window, of a lone stage pass.\n"
      "\n"
      "--faults puts an emulated device, or a training on the CPU, wrong on purpose, to\n"
      "see whether `pipesim compare` finds it: B@stage2=x1.4 (each B of stage 2 takes\n"
      "1.4 times as long), 2B5=x3 (that one does), launch@rank1=300us (rank 1 starts\n"
      "everything later), pause@2B5=20ms (before that one), jitter=5%, jitter@rank1=5%.\n"
      "\n"
      "--input-pipeline: base, sparse-dist, lite, fused, semi-sync, prefetch, staged as\n"
      "in torchrec, or a file. Each of --ranks threads, or of the processes that were\n"
      "started, trains --model dlrm-mini (default), dlrm-dcnv2 or a file with batches\n"
      "of its own; its host and each of its streams is a thread. --data FILE of\n"
      "batches, default a generator by --seed; --learning-rate of dense part and\n"
      "tables, default 0.05; --accumulate batches to a step of the dense part;\n"
      "--device cpu, or emulated with --costs.\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8\n"
      "  mpirun -n 4 pipeexec --schedule interleaved --microbatches 8 --trace run.json\n"
      "  mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8 --tensor-parallel 2\n"
      "  pipeexec --schedule zb-h1 --stages 4 --microbatches 8 --verify\n"
      "  pipeexec --schedule 1f1b --microbatches 8 --transport tcp --rank 0 --ranks 2 \\\n"
      "    --master node1:29500   (and on another host the same with --rank 1)\n"
      "  pipeexec --input-pipeline sparse-dist --ranks 4 --batches 32 --verify\n"
      "  mpirun -n 2 pipeexec --schedule my_order.csv --data my_text.txt --seed 7");
#ifdef M_ARENA_MAX
  // glibc gives threads arenas of their own, which hand large blocks back to the
  // system whenever they are freed: then a matrix product of a rank that is a
  // thread spends a fifth of its time on page faults.
  ::mallopt(M_ARENA_MAX, 1);
  // Nor does that one hand any back: an input pipeline, whose batches come and go, would spend half
  // of its time on page faults. Blocks above 32 MiB, the most that can be said here, still are.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
  std::optional<exec::Launch> launch;
  std::optional<Error> wrong;
  try {
    launch = exec::find_launch(std::getenv);
  } catch (const Error& error) {  // told where the command line is
    wrong = error;
  }
  exec::SuperviseFlags supervise_flags;
  exec::add_supervise(program, supervise_flags, launch);
  exec::CheckpointCommandFlags checkpoint_flags;
  exec::add_checkpoint(program, checkpoint_flags, launch);
  program.set_work([&] {
    if (wrong) throw *wrong;
    exec::check_input_flags(program, flags);
    exec::check_files(flags);
    exec::run_command(flags, launch);
  });
  program.set_foreign_flags(trainers_flags());
  program.set_known_names(exec::known_names);
  if (!launch || launch->rank == 0) return program.run(argc, argv);
  return program.run(argc, argv, [&](const Error& error) { exec::pass_on(error, flags, *launch); });
}
