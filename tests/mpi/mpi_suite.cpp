// The transport suite on the ranks of an MPI job, for tests/mpi/mpi_test.cpp.
//
// --eager-limit N is that of the transport; --fail RANK lets that rank fail in
// the middle of its work instead, --disagree all of them.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <map>
#include <string_view>

#include "exec/run/agreement.h"
#include "exec/run/ranks.h"
#include "exec/transport/collectives.h"
#include "exec/transport/mpi.h"
#include "tests/transport_suite.h"

namespace {

using namespace pipesim;

// Fails with large messages under way in both directions.
void fail_in_the_middle(exec::Transport& transport, std::int64_t bad) {
  constexpr int tag = exec::first_free_tag;
  constexpr std::size_t size = std::size_t{1} << 22;
  const exec::Bytes out(size);
  exec::Bytes in(size);
  const int next = (transport.rank() + 1) % transport.ranks();
  exec::barrier(transport);
  transport.send(next, tag, out);
  const exec::Ticket never = transport.receive(next, tag + 1, in);
  if (transport.rank() == bad) throw work_error("the device is gone");
  transport.wait(never);
}

void disagree(exec::Transport& transport) {
  exec::agree(transport, [&] {
    if (transport.rank() > 0) throw input_error("no such file");
  });
}

void run_suite(exec::Transport& transport, std::optional<std::int64_t> eager_limit) {
  testing::Promises promises;
  promises.waits_from = eager_limit;
  // See exec/transport/mpi.h; of messages to itself Open MPI tells no right size.
  promises.largest_misfit = transport.ranks() == 1 ? 0 : 16;
  const auto complaints = testing::check_transport(transport, promises);
  for (const std::string& complaint : complaints) fmt::print(stderr, "{}\n", complaint);
  exec::agree(transport, [&] {
    if (!complaints.empty()) throw work_error(fmt::format("{} complaints", complaints.size()));
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string_view, std::int64_t> given;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view value = argv[i + 1];
    std::from_chars(value.data(), value.data() + value.size(), given[argv[i]]);
  }
  std::optional<std::int64_t> eager_limit;
  if (given.contains("--eager-limit")) eager_limit = given["--eager-limit"];
  const auto transport = exec::make_mpi_transport(eager_limit);
  const auto work = [&](exec::Transport& own) {
    if (given.contains("--fail")) return fail_in_the_middle(own, given["--fail"]);
    if (given.contains("--disagree")) return disagree(own);
    run_suite(own, eager_limit);
  };
  const bool first = transport->rank() == 0;
  try {
    run_as_process(*transport, work, [&](const std::string& error) {
      fmt::print(stderr, "mpi_suite: rank {}: {}\n", transport->rank(), error);
    });
  } catch (const Error& error) {
    if (!first) return 0;
    fmt::print(stderr, "mpi_suite: {}\n", error.what());
    return error.exit_status();
  }
  if (first) fmt::print("{} ranks passed\n", transport->ranks());
}
