#include "exec/checkpoint/saver.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <system_error>

#include "exec/transport/collectives.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

template <typename Result>
bool has_result(std::future<Result>& future, bool waits) {
  if (!future.valid()) return false;
  return waits || future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// CLOCK_MONOTONIC.
std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Beside the training, or once its result is asked for.
template <typename Work>
auto start_work(bool beside, std::string_view what, const Work& work) {
  try {
    return std::async(beside ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error& error) {
    throw thread_error(what, error);
  }
}

// A rank's thread may be pinned to one processor, and threads that it starts inherit that: the
// background write would compete with the rank's compute.
void go_to_any_processor() {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(::getpid(), sizeof all, &all) != 0) return;
  ::sched_setaffinity(0, sizeof all, &all);
}

}  // namespace

Saver::Saver(Disk& disk, Device& device, Transport& transport, const SavePlan& plan)
    : transport_(transport),
      device_(device),
      disk_(disk),
      folder_(disk, plan.folder, plan.keep),
      beside_(plan.beside) {}

// Messages have their buffers in this object.
Saver::~Saver() {
  if (sending_ || awaits_reports()) transport_.abandon();
}

bool Saver::awaits_reports() const {
  return std::ranges::any_of(
      awaited_, [](const std::optional<Ticket>& ticket) { return ticket.has_value(); });
}

std::int64_t Saver::save(const Manifest& manifest, const std::vector<SavedArray>& arrays) {
  finish();
  manifest_ = manifest;
  snapshot_.take(device_, arrays, beside_);
  copied_ns_ = now_ns();
  const int ranks = transport_.ranks();
  if (transport_.rank() == 0) {
    manifest_.files.resize(static_cast<std::size_t>(ranks));
    reports_.assign(static_cast<std::size_t>(ranks), {});
    awaited_.assign(static_cast<std::size_t>(ranks), {});
    for (std::size_t rank = 1; rank < reports_.size(); ++rank) {
      awaited_[rank] = transport_.receive(static_cast<int>(rank), checkpoint_tag,
                                          std::as_writable_bytes(std::span(&reports_[rank], 1)));
    }
    is_to_publish_ = true;
  }
  const auto write = [this, name = CheckpointFolder::file_of(transport_.rank())] {
    if (beside_) go_to_any_processor();
    const CheckpointFile file = snapshot_.write(disk_, folder_.open(manifest_.iteration), name);
    through_ns_ = now_ns();
    return file;
  };
  writing_ = start_work(beside_, "to write a checkpoint", write);
  if (!beside_) finish();
  return snapshot_.bytes();
}

void Saver::go_on(bool waits) {
  take_file(waits);
  if (sending_ && has_ended(*sending_, waits)) sending_.reset();
  take_reports(waits);
  publish(waits);
}

bool Saver::has_ended(Ticket ticket, bool waits) {
  if (!waits) return transport_.test(ticket);
  transport_.wait(ticket);
  return true;
}

void Saver::take_file(bool waits) {
  if (!has_result(writing_, waits)) return;
  const CheckpointFile file = writing_.get();
  if (transport_.rank() == 0) {
    manifest_.files.front() = file;
    return;
  }
  note_written();
  sent_.bytes = file.bytes;
  std::ranges::copy(file.hash, sent_.hash.begin());
  sending_ = transport_.send(0, checkpoint_tag, std::as_bytes(std::span(&sent_, 1)));
}

void Saver::take_reports(bool waits) {
  for (std::size_t rank = 1; rank < awaited_.size(); ++rank) {
    if (!awaited_[rank] || !has_ended(*awaited_[rank], waits)) continue;
    awaited_[rank].reset();
    const Report& report = reports_[rank];
    manifest_.files[rank] = {CheckpointFolder::file_of(static_cast<int>(rank)),
                             report.bytes,
                             {report.hash.begin(), report.hash.end()}};
  }
}

void Saver::publish(bool waits) {
  if (is_to_publish_ && !writing_.valid() && !awaits_reports()) {
    is_to_publish_ = false;
    const auto work = [this] {
      if (beside_) go_to_any_processor();
      const std::string path = folder_.open(manifest_.iteration);
      for (const CheckpointFile& file : manifest_.files) {
        if (size_of_file(fmt::format("{}/{}", path, file.name)) == file.bytes) continue;
        throw input_error(
            fmt::format("{}: {} is not there as its rank has written it; --checkpoint must be on a "
                        "file system that all ranks share",
                        printable(path), file.name));
      }
      folder_.publish(manifest_);
      through_ns_ = now_ns();
    };
    publishing_ = start_work(beside_, "to publish a checkpoint", work);
  }
  if (!has_result(publishing_, waits)) return;
  publishing_.get();
  note_written();
}

// Call after its thread has ended.
void Saver::note_written() {
  if (beside_) {
    written_.push_back({manifest_.iteration, snapshot_.bytes(), copied_ns_, through_ns_});
  }
}

}  // namespace pipesim::exec
