// pipeexec: trains a model by a pipeline schedule, and measures it.
#include <malloc.h>

#include <cstdlib>
#include <limits>

#include "exec/cli/checkpoint_command.h"
#include "exec/cli/command.h"
#include "exec/cli/device_command.h"
#include "exec/cli/supervise_command.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program("pipeexec",
                      "pipeexec trains a model by a pipeline schedule, one rank per stage, or a\n"
                      "recommendation model in an overlapped input pipeline, and measures when\n"
                      "every action ran and how much memory it held.",
                      PIPESIM_VERSION);
  exec::Flags flags;
  exec::add_all_flags(program, flags);
  program.set_footer(
      "Without --transport, ranks are the processes that mpirun, srun or torchrun\n"
      "started, or else --stages threads of this one. With --transport nccl (rccl for\n"
      "HIP) they are MPI processes, too, and results go from GPU to GPU; so far that\n"
      "has run on emulated GPUs only.\n"
      "\n"
      "A process takes its rank from the first of these that is set: --rank and\n"
      "--ranks, the variables of mpirun (OMPI_COMM_WORLD_RANK, PMI_RANK), of torchrun\n"
      "(RANK, WORLD_SIZE), of srun (SLURM_PROCID, SLURM_NTASKS). Rank 0 of\n"
      "--transport tcp listens at --master, or else at MASTER_ADDR and MASTER_PORT, or\n"
      "the port after that if torchrun itself uses it. The launcher's local rank\n"
      "picks the GPU.\n"
      "\n"
      "--token: --transport tcp lets in only processes that have the same. It is in the\n"
      "clear in ps and on the network; the variable PIPEEXEC_TOKEN hides it from ps.\n"
      "Without either it is what the launcher calls the job, if it does.\n"
      "\n"
      "--tensor-parallel: each layer is sharded over its ranks: heads, MLP\n"
      "columns, words of the vocabulary. Ranks are numbered by shard first, then by\n"
      "replica, then by stage; start P x D x T of them.\n"
      "\n"
      "--recompute: what backwards recompute instead of keeping.\n"
      "full: each block's forward; full:4: of each stage's first four blocks; or,\n"
      "separated by commas, attention (scores, softmax, dropout, their product with the\n"
      "values; alone also called selective), norms and activation (their outputs).\n"
      "Default none.\n"
      "\n"
      "--gather, with --zero 3: how long a stage holds the weights that replicas keep\n"
      "in parts. window: while it is among the next three that its rank needs;\n"
      "pass: for each forward and backward, two layers at a time; once: from its first\n"
      "action to its last. Default window; for a lone stage, pass.\n"
      "\n"
      "--faults disturbs an emulated device, or training on the CPU, on purpose, to\n"
      "see whether `pipesim compare` finds it: B@stage2=x1.4 (each B of stage 2 takes\n"
      "1.4 times as long), 2B5=x3 (that one alone), launch@rank1=300us (rank 1 starts\n"
      "everything later), pause@2B5=20ms (before that one), jitter=5%, jitter@rank1=5%.\n"
      "\n"
      "--input-pipeline: base, sparse-dist, lite, fused, semi-sync, prefetch, staged as\n"
      "in torchrec, or a file. Each of --ranks threads, or of the processes\n"
      "started, trains --model dlrm-mini (default), dlrm-dcnv2 or a file on batches\n"
      "of its own; its host and each of its streams is a thread. --data FILE has\n"
      "batches, default a generator with --seed; --learning-rate of dense part and\n"
      "tables, default 0.05; --accumulate batches per step of the dense part;\n"
      "--device cpu, or emulated with --costs.\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8\n"
      "  mpirun -n 4 pipeexec --schedule interleaved --microbatches 8 --trace run.json\n"
      "  mpirun -n 4 pipeexec --schedule 1f1b --microbatches 8 --tensor-parallel 2\n"
      "  pipeexec --schedule zb-h1 --stages 4 --microbatches 8 --verify\n"
      "  pipeexec --schedule 1f1b --microbatches 8 --transport tcp --rank 0 --ranks 2 \\\n"
      "    --master node1:29500   (and the same on another host with --rank 1)\n"
      "  pipeexec --input-pipeline sparse-dist --ranks 4 --batches 32 --verify\n"
      "  mpirun -n 2 pipeexec --schedule my_order.csv --data my_text.txt --seed 7");
#ifdef M_ARENA_MAX
  // glibc gives threads separate arenas, which return large blocks to the system whenever they are
  // freed: then a GEMM of a rank in a thread spends a fifth of its time on page faults.
  ::mallopt(M_ARENA_MAX, 1);
  // Nor does the main arena return any: an input pipeline, which allocates and frees batches, would
  // spend half of its time on page faults. Blocks above 32 MiB, the largest possible threshold, are
  // still returned.
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
  std::optional<exec::Launch> launch;
  std::optional<Error> wrong;
  try {
    launch = exec::find_launch(std::getenv);
  } catch (const Error& error) {  // reported where the command line is
    wrong = error;
  }
  exec::SuperviseFlags supervise_flags;
  exec::add_supervise(program, supervise_flags, launch);
  exec::CheckpointCommandFlags checkpoint_flags;
  exec::add_checkpoint(program, checkpoint_flags, launch);
  exec::DeviceFlags device_flags;
  exec::add_device(program, device_flags, launch);
  program.set_work([&] {
    if (wrong) throw *wrong;
    exec::check_input_flags(program, flags);
    exec::check_files(flags);
    exec::run_command(flags, launch);
  });
  program.set_foreign_flags(trainers_flags());
  if (!launch || launch->rank == 0) return program.run(argc, argv);
  return program.run(argc, argv, [&](const Error& error) { exec::pass_on(error, flags, *launch); });
}
