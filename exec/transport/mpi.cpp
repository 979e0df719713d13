#include "exec/transport/mpi.h"

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <thread>

#include "exec/device/device.h"
#include "exec/transport/back_off.h"
#include "traces/base/error.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

Error failure_of(const char* call, int status) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  return work_error(
      fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

// For set-up, while nothing is in progress.
void check(int status, const char* call) {
  if (status != MPI_SUCCESS) throw failure_of(call, status);
}

// Holds while MPI starts.
class StartWatch {
 public:
  explicit StartWatch(const StartLimit& limit) {
    if (limit.patience.count() == 0) return;
    watcher_ = start_thread("to watch MPI's start", [this, &limit](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, stop, limit.patience, [] { return false; });
      if (!stop.stop_requested()) limit.give_up();
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread watcher_;
};

// A sum in progress. MPI sums copies on the host: it can't cancel an operation, which may outlive
// the numbers.
struct MpiSum {
  std::vector<float> numbers;
  std::vector<int> counts;  // by index; empty: all ranks keep all
  std::vector<float> sums;  // if not in place
  void* to = nullptr;       // in the device's memory
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::optional<std::int64_t> eager_limit_bytes, const StartLimit& limit)
      : eager_limit_bytes_(eager_limit_bytes) {
    const StartWatch watch(limit);
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(communicator_, &ranks_), "MPI_Comm_size");
    void* attribute = nullptr;
    int found = 0;
    MPI_Comm_get_attr(communicator_, MPI_TAG_UB, static_cast<void*>(&attribute), &found);
    if (found != 0) largest_tag_ = *static_cast<int*>(attribute);
  }

  ~MpiTransport() override {
    MPI_Comm_free(&communicator_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string name() const override { return "mpi"; }

  Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    const bool waits =
        eager_limit_bytes_ && static_cast<std::int64_t>(bytes.size()) >= *eager_limit_bytes_;
    const Ticket ticket = open(to, tag, bytes.size(), false);
    ensure((waits ? MPI_Issend : MPI_Isend)(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE,
                                            to, tag, communicator_, &requests_[ticket].request),
           "MPI_Isend");
    return ticket;
  }

  Ticket receive(int from, int tag, std::span<std::byte> bytes) override {
    const Ticket ticket = open(from, tag, bytes.size(), true);
    ensure(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, tag,
                     communicator_, &requests_[ticket].request),
           "MPI_Irecv");
    return ticket;
  }

  bool test(Ticket ticket) override {
    Request& own = requests_[ticket];
    int done = 0;
    MPI_Status status;
    const int result = MPI_Test(&own.request, &done, &status);
    if (result == MPI_SUCCESS && done == 0) return false;
    if (own.sum) {
      ensure(result, "MPI_Test");
      const std::vector<float>& sums = own.sum->counts.empty() ? own.sum->numbers : own.sum->sums;
      if (!sums.empty()) {
        own.device->upload(own.sum->to, sums.data(),
                           static_cast<std::int64_t>(sums.size() * sizeof(float)));
      }
      own.sum.reset();
      free_.push_back(ticket);
      return true;
    }
    // For a message that is too long Open MPI reports the whole size.
    int kind = MPI_SUCCESS;
    int received = own.size;
    if (result != MPI_SUCCESS) MPI_Error_class(result, &kind);
    if (own.receives && (kind == MPI_SUCCESS || kind == MPI_ERR_TRUNCATE)) {
      MPI_Get_count(&status, MPI_BYTE, &received);
    }
    if (received != own.size) {
      give_up(wrong_size(static_cast<std::size_t>(received), status.MPI_SOURCE,
                         static_cast<std::size_t>(own.size)));
    }
    ensure(result, "MPI_Test");
    free_.push_back(ticket);
    return true;
  }

  std::size_t wait_any_until(std::span<const Ticket> tickets, Time until) override {
    for (BackOff pause;; pause.pause()) {
      for (std::size_t i = 0; i < tickets.size(); ++i) {
        if (test(tickets[i])) return i;
      }
      if (until != Time::max() && std::chrono::steady_clock::now() >= until) return tickets.size();
    }
  }

  std::string awaited(Ticket ticket) const override {
    const Request& own = requests_[ticket];
    if (own.sum) return "the others of a sum";
    return own.receives ? a_message_from(own.peer) : a_taker_at(own.peer);
  }

  bool has_library_sums() const override { return true; }
  std::unique_ptr<LibrarySums> library_sums(const RankGroup& group, Device& device) override;

  Limits limits() const override { return {std::numeric_limits<int>::max(), largest_tag_}; }

  void abandon() override {
    for (Request& own : requests_) {
      if (own.request == MPI_REQUEST_NULL) continue;
      // MPI may advance it in any call.
      if (own.sum) {
        left_.push_back(std::move(own.sum));
        continue;
      }
      if (own.receives) MPI_Cancel(&own.request);
      MPI_Request_free(&own.request);
    }
    requests_.clear();
    free_.clear();
  }

  void fail(const Error& why) override {
    MPI_Abort(communicator_, why.exit_status());
    std::_Exit(why.exit_status());  // if MPI returns from that
  }

 private:
  struct Request {
    MPI_Request request = MPI_REQUEST_NULL;
    int size = 0;
    int peer = 0;
    bool receives = false;
    std::unique_ptr<MpiSum> sum = nullptr;  // or a message
    Device* device = nullptr;               // of the sum
  };
  friend class MpiSums;

  [[noreturn]] void give_up(const Error& error) {
    abandon();
    throw error;
  }

  void ensure(int status, const char* call) {
    if (status != MPI_SUCCESS) give_up(failure_of(call, status));
  }

  Ticket open(int peer, int tag, std::size_t size, bool receives) {
    constexpr std::size_t most = 0x7fffffff;
    if (size > most) {
      give_up(work_error(fmt::format("a message of {} bytes: MPI takes at most {}", size, most)));
    }
    if (tag > largest_tag_) {
      give_up(input_error(fmt::format(
          "this MPI has tags up to {} only; use fewer stages or microbatches", largest_tag_)));
    }
    Ticket ticket = requests_.size();
    if (free_.empty()) {
      requests_.emplace_back();
    } else {
      ticket = free_.back();
      free_.pop_back();
    }
    requests_[ticket] = {MPI_REQUEST_NULL, static_cast<int>(size), peer, receives};
    return ticket;
  }

  std::optional<std::int64_t> eager_limit_bytes_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int ranks_ = 1;
  int largest_tag_ = 32767;  // the least that MPI guarantees
  std::vector<Request> requests_;
  std::vector<Ticket> free_;
  std::vector<std::unique_ptr<MpiSum>> left_;  // that were abandoned
};

// Over its own communicator.
class MpiSums final : public LibrarySums {
 public:
  MpiSums(MpiTransport& transport, const RankGroup& group, Device& device)
      : transport_(transport), device_(device) {
    std::vector<int> ranks;
    for (std::int64_t i = 0; i < group.count; ++i) ranks.push_back(static_cast<int>(group[i]));
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group own = MPI_GROUP_NULL;
    check(MPI_Comm_group(transport.communicator_, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &own),
          "MPI_Group_incl");
    const int status = MPI_Comm_create_group(transport.communicator_, own, 0, &communicator_);
    MPI_Group_free(&own);
    MPI_Group_free(&all);
    check(status, "MPI_Comm_create_group");
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Comm_rank(communicator_, &rank_);
  }
  // A communicator with abandoned sums is not freed.
  ~MpiSums() override {
    if (transport_.left_.empty()) MPI_Comm_free(&communicator_);
  }
  MpiSums(const MpiSums&) = delete;
  MpiSums& operator=(const MpiSums&) = delete;

  Ticket reduce_scatter(float* numbers, const std::vector<std::int64_t>& counts) override {
    std::int64_t all = 0;
    std::int64_t before = 0;  // this rank's own
    auto sum = std::make_unique<MpiSum>();
    for (const std::int64_t count : counts) {
      if (std::ssize(sum->counts) == rank_) before = all;
      sum->counts.push_back(static_cast<int>(count));
      all += count;
    }
    sum->sums.resize(static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]));
    sum->to = numbers + before;
    const Ticket ticket = open(std::move(sum), numbers, all);
    MpiTransport::Request& own = transport_.requests_[ticket];
    transport_.ensure(
        MPI_Ireduce_scatter(own.sum->numbers.data(), own.sum->sums.data(), own.sum->counts.data(),
                            MPI_FLOAT, MPI_SUM, communicator_, &own.request),
        "MPI_Ireduce_scatter");
    return ticket;
  }

  Ticket all_reduce(float* numbers, std::int64_t count) override {
    auto sum = std::make_unique<MpiSum>();
    sum->to = numbers;
    const Ticket ticket = open(std::move(sum), numbers, count);
    MpiTransport::Request& own = transport_.requests_[ticket];
    transport_.ensure(MPI_Iallreduce(MPI_IN_PLACE, own.sum->numbers.data(), static_cast<int>(count),
                                     MPI_FLOAT, MPI_SUM, communicator_, &own.request),
                      "MPI_Iallreduce");
    return ticket;
  }

 private:
  Ticket open(std::unique_ptr<MpiSum> sum, const float* numbers, std::int64_t count) {
    constexpr std::int64_t most = 0x7fffffff;
    if (count > most) {
      transport_.give_up(work_error(fmt::format(
          "a sum of {} numbers: MPI takes at most {}; give --bucket-bytes", count, most)));
    }
    sum->numbers.resize(static_cast<std::size_t>(count));
    if (count > 0) {
      device_.download(sum->numbers.data(), numbers,
                       count * static_cast<std::int64_t>(sizeof(float)));
    }
    const Ticket ticket = transport_.open(0, 0, 0, false);
    transport_.requests_[ticket].sum = std::move(sum);
    transport_.requests_[ticket].device = &device_;
    return ticket;
  }

  MpiTransport& transport_;
  Device& device_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
};

std::unique_ptr<LibrarySums> MpiTransport::library_sums(const RankGroup& group, Device& device) {
  return std::make_unique<MpiSums>(*this, group, device);
}

}  // namespace

std::string mpi_left_out() { return {}; }

bool mpi_needs_pmix() {
#ifdef OPEN_MPI
  return std::getenv("PMIX_NAMESPACE") == nullptr && std::getenv("PMI_RANK") == nullptr;
#else
  return false;
#endif
}

std::unique_ptr<Transport> make_mpi_transport(std::optional<std::int64_t> eager_limit_bytes,
                                              const StartLimit& limit) {
  return std::make_unique<MpiTransport>(eager_limit_bytes, limit);
}

}  // namespace pipesim::exec
