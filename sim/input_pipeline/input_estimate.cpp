#include "sim/input_pipeline/input_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/cost/estimate/device_times.h"
#include "sim/cost/estimate/rounding.h"
#include "sim/input_pipeline/dense_times.h"
#include "sim/input_pipeline/id_distribution.h"
#include "sim/input_pipeline/input_traffic.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr double number_bytes = 4;
constexpr double id_bytes = 8;      // of an id in a sample's list
constexpr double length_bytes = 8;  // how many ids a sample has
constexpr double split_bytes = 24;  // to each rank: of lengths, ids and samples
// Kernels launched by the forward of a transformer block, for which `host_forward` was fitted.
constexpr std::int64_t kernels_of_block = 25;
constexpr int update_kernels = 3;  // ids sorted by rows, gradients summed up by row, the step

// The work on one table, or on a piece of it, for a batch of all ranks.
struct PieceWork {
  TablePiece piece;
  double ids = 0;     // that fall in it
  double width = 0;   // numbers per row
  double misses = 0;  // the share of ids whose rows are not in the device's memory

  double row_bytes() const { return width * number_bytes; }
};

class InputEstimator {
 public:
  InputEstimator(const RecommendationModel& model, const ShardingPlan& plan, const Cluster& cluster,
                 int ranks, std::int64_t batch_size, const InputSoftware& software,
                 TableOptimizer optimizer)
      : model_(model),
        plan_(plan),
        device_(cluster.device),
        batch_(static_cast<double>(batch_size)),
        samples_(static_cast<double>(batch_size) * ranks),
        software_(software),
        has_states_(optimizer == TableOptimizer::row_wise_adagrad),
        launch_ns_(
            software.launch_ns.value_or(device_.software.host.forward_ns / kernels_of_block)),
        network_(cluster, ranks) {
    costs_.batch_size = batch_size;
    costs_.links = network_.links();
    costs_.work.resize(static_cast<std::size_t>(ranks));
    costs_.holdings.resize(static_cast<std::size_t>(ranks));
    pieces_.resize(static_cast<std::size_t>(ranks));
    for (const TablePiece& piece : pieces_of(plan, model, ranks, cluster.devices_per_node)) {
      pieces_[static_cast<std::size_t>(piece.rank)].push_back(work_of(piece));
    }
  }

  InputCosts run() {
    copy();
    exchange_ids();
    tables();
    exchange_pooled();
    dense();
    hold();
    return std::move(costs_);
  }

 private:
  using Pieces = std::vector<PieceWork>;

  const EmbeddingTable& table(const TablePiece& piece) const {
    return model_.tables[static_cast<std::size_t>(piece.table)];
  }
  ShardingType sharding(const TablePiece& piece) const {
    return plan_.tables[static_cast<std::size_t>(piece.table)].sharding;
  }
  bool is_copy(const PieceWork& work) const {
    return sharding(work.piece) == ShardingType::data_parallel;
  }
  int ranks() const { return network_.ranks(); }
  const Pieces& pieces(int rank) const { return pieces_[static_cast<std::size_t>(rank)]; }

  std::int64_t launches(int count) const {
    if (count == 0 || launch_ns_ <= max_time_ns / count) return launch_ns_ * count;
    return to_ns(static_cast<double>(launch_ns_) * 1e-9 * count);  // refuses it
  }
  // On every rank.
  void set(Kind kind, const InputWork& work) {
    for (int rank = 0; rank < ranks(); ++rank) costs_.of(rank, kind) = work;
  }
  void set(Kind kind, double seconds, int kernels) {
    set(kind, {to_ns(seconds), 0, {}, launches(kernels)});
  }
  void set(Kind kind, const InputTraffic& traffic, int transfers) {
    for (int rank = 0; rank < ranks(); ++rank) {
      costs_.of(rank, kind) = traffic.work(rank);
      costs_.of(rank, kind).host_ns = launches(transfers);
    }
  }

  // ---- Which rows are used

  PieceWork work_of(const TablePiece& piece) {
    const EmbeddingTable& whole = table(piece);
    // Pieces of a table are consecutive.
    if (asked_.table != piece.table) asked_ = asked_for(piece);
    const double samples = sharding(piece) == ShardingType::data_parallel ? batch_ : samples_;
    const auto found = asked_.shares.find(piece.row_end);
    const double share = found != asked_.shares.end()
                             ? found->second
                             : static_cast<double>(piece.row_end - piece.row_begin) /
                                   static_cast<double>(whole.rows);
    return {piece, static_cast<double>(whole.ids_per_sample) * samples * share,
            static_cast<double>(piece.column_end - piece.column_begin), asked_.misses};
  }

  // How ids of one table fall on its rows.
  struct AskedRows {
    int table = -1;
    double misses = 0;                      // the share whose rows are not in the device's memory
    std::map<std::int64_t, double> shares;  // by the end of a piece's rows; none: by their number
  };

  AskedRows asked_for(const TablePiece& piece) const {
    const EmbeddingTable& whole = table(piece);
    AskedRows asked{piece.table, 0, {}};
    if (software_.cached_share < 1) {
      const auto cached =
          static_cast<std::int64_t>(static_cast<double>(whole.rows) * software_.cached_share);
      asked.misses = 1 - ZipfDistribution(whole.rows, whole.skew).share_of_first(cached);
    }
    const bool is_in_node = sharding(piece) == ShardingType::table_row_wise;
    if (whole.skew == 0 || (!is_in_node && sharding(piece) != ShardingType::row_wise)) return asked;
    const int parts = is_in_node ? network_.node_size(piece.rank) : ranks();
    std::vector<std::int64_t> ends;
    for (int i = 1; i <= parts; ++i) ends.push_back(rows_before(whole.rows, parts, i));
    const std::vector<double> shares =
        IdDistribution(whole, piece.table, software_.seed).shares(ends);
    for (std::size_t i = 0; i < ends.size(); ++i) asked.shares[ends[i]] = shares[i];
    return asked;
  }

  // ---- Batches and ids

  double batch_bytes() const {
    double numbers = static_cast<double>(model_.dense_features + 1) * number_bytes;
    for (const EmbeddingTable& one : model_.tables) {
      numbers += static_cast<double>(one.ids_per_sample) * id_bytes + length_bytes;
    }
    return numbers * batch_;
  }

  void copy() {
    constexpr int tensors = 4;  // dense features, labels, lengths, ids
    set(Kind::NEXT, {software_.next_ns, 0, {}, 0});
    for (int rank = 0; rank < ranks(); ++rank) {
      costs_.of(rank, Kind::COPY) = {device_.host_latency_ns,
                                     to_bytes(batch_bytes()),
                                     {network_.host_link(rank)},
                                     launches(tensors)};
    }
    set(Kind::PREPARE, memory_seconds(device_, 2 * batch_bytes(), 1), 1);
  }

  // The bytes of all ranks' ids, including lengths, for a rank that owns a piece.
  double owned_id_bytes(int rank) const {
    double bytes = 0;
    for (const PieceWork& work : pieces(rank)) {
      if (!is_copy(work)) bytes += work.ids * id_bytes + samples_ * length_bytes;
    }
    return bytes;
  }

  void exchange_ids() {
    InputTraffic splits(network_);
    InputTraffic ids(network_);
    splits.all_to_all(1);
    ids.all_to_all(2);  // lengths, then ids
    double sent = 0;    // by each rank, to itself, too
    for (int rank = 0; rank < ranks(); ++rank) {
      splits.send_to_each(rank, split_bytes);
      ids.get_from_each(rank, owned_id_bytes(rank) / ranks());
      sent += owned_id_bytes(rank) / ranks();
    }
    set(Kind::SPLITS, splits, 1);
    set(Kind::READ, {device_.host_latency_ns + launches(1), 0, {}, 0});
    set(Kind::IDS, ids, 4);
    for (int rank = 0; rank < ranks(); ++rank) {
      // They are sorted by rank before they are sent, and by table after they are received.
      costs_.of(rank, Kind::IDS).duration_ns +=
          to_ns(memory_seconds(device_, 2 * (sent + owned_id_bytes(rank)), 2));
    }
  }

  // ---- Rows

  void tables() {
    for (int rank = 0; rank < ranks(); ++rank) {
      double looked_up = 0;  // bytes through memory
      double updated = 0;
      double missed = 0;
      for (const PieceWork& work : pieces(rank)) {
        const double rows = work.ids * work.row_bytes();
        const double pooled = (is_copy(work) ? batch_ : samples_) * work.row_bytes();
        looked_up += rows + work.ids * id_bytes + pooled;
        missed += rows * work.misses;
        updated += update_bytes(work);
      }
      const bool has_rows = !pieces(rank).empty();
      costs_.of(rank, Kind::LOOKUP) = compute(looked_up, has_rows ? 1 : 0);
      costs_.of(rank, Kind::UPDATE) = compute(updated, has_rows ? update_kernels : 0);
      if (missed == 0) continue;
      // As many rows are evicted from the cache as are added.
      costs_.of(rank, Kind::PREFETCH) = {
          device_.host_latency_ns, to_bytes(missed), {network_.host_link(rank)}, launches(2)};
    }
  }

  InputWork compute(double bytes, int kernels) const {
    return {to_ns(memory_seconds(device_, bytes, kernels)), 0, {}, launches(kernels)};
  }

  double update_bytes(const PieceWork& work) const {
    const double state_bytes = has_states_ ? 2 * number_bytes : 0;  // read and written
    if (is_copy(work)) {
      // A gradient of the whole table is cleared and accumulated by row; then all rows step.
      const double rows = static_cast<double>(work.piece.row_end);
      return rows * (4 * work.row_bytes() + state_bytes) + 3 * work.ids * work.row_bytes();
    }
    constexpr double passes_of_sort = 4;
    // Per id, a gradient is read, a row and its state are read and written.
    return work.ids * (3 * work.row_bytes() + state_bytes + passes_of_sort * id_bytes);
  }

  void exchange_pooled() {
    InputTraffic forward(network_);
    InputTraffic backward(network_);
    int swaps = 0;  // all-to-alls forward, as many backward
    int transfers = 0;
    double copies = 0;  // bytes of tables that all ranks have
    std::vector<double> whole(static_cast<std::size_t>(ranks()), 0);  // bytes per receiver
    double by_rows = 0;
    std::map<int, double> in_node;  // by the node's first rank
    for (std::size_t t = 0; t < model_.tables.size(); ++t) {
      const EmbeddingTable& one = model_.tables[t];
      const TableSharding& sharding = plan_.tables[t];
      const double pooled = batch_ * static_cast<double>(one.width) * number_bytes;
      switch (sharding.sharding) {
        case ShardingType::table_wise:
        case ShardingType::column_wise:
          for (const int rank : sharding.ranks) {
            whole[static_cast<std::size_t>(rank)] +=
                pooled / static_cast<double>(sharding.ranks.size());
          }
          swaps = 1;
          break;
        case ShardingType::row_wise: by_rows += pooled * ranks(); break;
        case ShardingType::data_parallel: copies += static_cast<double>(one.bytes()); break;
        case ShardingType::table_row_wise: in_node[sharding.ranks.front()] += pooled; break;
      }
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      forward.send_to_each(rank, whole[static_cast<std::size_t>(rank)]);
      backward.get_from_each(rank, whole[static_cast<std::size_t>(rank)]);
    }
    if (by_rows > 0) {
      forward.collective(CollectiveKind::reduce_scatter, by_rows);
      backward.collective(CollectiveKind::all_gather, by_rows);
      ++transfers;
    }
    for (const auto& [begin, pooled] : in_node) {
      forward.collective_in_node(begin, CollectiveKind::reduce_scatter, pooled * ranks());
      backward.collective_in_node(begin, CollectiveKind::all_gather, pooled * ranks());
      forward.send_out_of_node(begin, pooled);
      backward.get_into_node(begin, pooled);
    }
    if (!in_node.empty()) {
      ++swaps;
      ++transfers;
    }
    transfers += swaps;
    forward.all_to_all(swaps);
    backward.all_to_all(swaps);
    set(Kind::OUTPUT, forward, transfers);
    const int sums = reduce(backward, copies);
    set(Kind::OUTPUT_BACKWARD, backward, transfers + sums);
  }

  // Sums gradients over all ranks; returns the number of buckets.
  int reduce(InputTraffic& traffic, double bytes) const {
    if (bytes == 0) return 0;
    const double bucket = static_cast<double>(software_.bucket_bytes);
    const int buckets = static_cast<int>(std::ceil(bytes / bucket));
    traffic.collective(CollectiveKind::all_reduce, bytes, buckets);
    return buckets;
  }

  // ---- The dense part

  double dense_parameters() const {
    return static_cast<double>(model_.bottom_parameters() + model_.top_parameters());
  }

  void dense() {
    const DenseTimes times = dense_times(model_, device_, software_.precision, costs_.batch_size);
    activation_bytes_ = times.activation_bytes;
    const auto set_kernels = [&](Kind kind, const KernelTimes& one) {
      set(kind, one.seconds, one.kernels);
    };
    set_kernels(Kind::BOTTOM, times.bottom);
    set_kernels(Kind::TOP, times.top);
    set_kernels(Kind::TOP_BACKWARD, times.top_backward);
    set_kernels(Kind::BOTTOM_BACKWARD, times.bottom_backward);
    const double bytes = dense_parameters() * number_bytes;
    set(Kind::ZERO_GRAD, memory_seconds(device_, bytes, 1), 1);
    // SGD: gradients and parameters are read, parameters written.
    set(Kind::DENSE_STEP, memory_seconds(device_, 3 * bytes, 1), 1);
    for (const auto& [kind, parameters] :
         {std::pair(Kind::REDUCE_TOP, model_.top_parameters()),
          std::pair(Kind::REDUCE_BOTTOM, model_.bottom_parameters())}) {
      InputTraffic traffic(network_);
      const int buckets = reduce(traffic, static_cast<double>(parameters) * number_bytes);
      set(kind, traffic, buckets);
    }
  }

  // ---- Bytes

  void hold() {
    double got = 0;  // pooled rows of own samples
    for (const EmbeddingTable& one : model_.tables) {
      got += batch_ * static_cast<double>(one.width) * number_bytes;
    }
    for (int rank = 0; rank < ranks(); ++rank) {
      InputHoldings& held = costs_.holdings[static_cast<std::size_t>(rank)];
      double numbers = 0;
      double states = 0;
      double sent = 0;
      double gradients = 0;  // of copies
      for (const PieceWork& work : pieces(rank)) {
        const double all = static_cast<double>(work.piece.numbers());
        numbers += all * software_.cached_share;
        const double rows = static_cast<double>(work.piece.row_end - work.piece.row_begin);
        if (has_states_) states += rows * software_.cached_share;
        if (is_copy(work)) {
          gradients += all;
        } else {
          sent += samples_ * work.row_bytes();
        }
      }
      held.always.tables = to_bytes((numbers + gradients) * number_bytes);
      held.always.optimizer = to_bytes(states * number_bytes);
      held.always.dense = to_bytes(2 * dense_parameters() * number_bytes);
      held.batch_bytes = to_bytes(batch_bytes());
      held.ids_bytes = to_bytes(owned_id_bytes(rank));
      held.pooled_bytes = to_bytes(sent + got);
      held.activation_bytes = to_bytes(activation_bytes_);
    }
  }

  const RecommendationModel& model_;
  const ShardingPlan& plan_;
  const DeviceSpec& device_;
  double batch_;    // samples of a rank
  double samples_;  // of all ranks
  const InputSoftware& software_;
  bool has_states_;
  std::int64_t launch_ns_;
  InputNetwork network_;
  std::vector<Pieces> pieces_;  // by rank
  double activation_bytes_ = 0;
  AskedRows asked_;
  InputCosts costs_;
};

}  // namespace

InputCosts estimate_input(const RecommendationModel& model, const ShardingPlan& plan,
                          const Cluster& cluster, int ranks, std::int64_t batch_size,
                          const InputSoftware& software, TableOptimizer optimizer) {
  if (software.precision != Precision::fp32 && software.precision != Precision::tf32) {
    throw input_error(
        fmt::format("--precision {}: numbers of a recommendation model are float32; give fp32 or "
                    "tf32",
                    precision_name(software.precision)));
  }
  require_rate(cluster.device, software.precision);
  return InputEstimator(model, plan, cluster, ranks, batch_size, software, optimizer).run();
}

std::optional<InputMemoryLack> find_memory_lack(const std::vector<InputMemory>& memory,
                                                std::int64_t device_bytes) {
  std::optional<InputMemoryLack> lack;
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    const std::int64_t missing = memory[rank].total() - device_bytes;
    if (missing > (lack ? lack->bytes : 0)) lack = {static_cast<int>(rank), missing};
  }
  return lack;
}

std::string to_text(const InputMemoryLack& lack, const std::vector<InputMemory>& memory,
                    const RecommendationModel& model, const ShardingPlan& plan,
                    const Cluster& cluster) {
  const int ranks = static_cast<int>(memory.size());
  const InputMemory& held = memory[static_cast<std::size_t>(lack.rank)];
  std::string largest = "it holds no table; use smaller batches";
  const std::int64_t in_tables = held.tables + held.optimizer;
  const bool are_tables_large = in_tables > lack.bytes / 2;
  if (!are_tables_large && in_tables > 0) {
    largest = fmt::format("its tables take {}; use smaller batches or a smaller dense part",
                          format_bytes(in_tables));
  }
  std::int64_t most = 0;
  for (const TablePiece& piece : pieces_of(plan, model, ranks, cluster.devices_per_node)) {
    if (!are_tables_large || piece.rank != lack.rank || piece.numbers() <= most) continue;
    most = piece.numbers();
    largest = fmt::format(
        "of its tables {} takes most, {}; divide it over more ranks, or use smaller batches",
        quote(model.tables[static_cast<std::size_t>(piece.table)].name), format_bytes(most * 4));
  }
  const std::int64_t needed = held.total();
  return fmt::format("rank {} lacks {}: it needs {} and has {}; {}", lack.rank,
                     format_bytes(lack.bytes), format_bytes(needed),
                     format_bytes(needed - lack.bytes), largest);
}

}  // namespace pipesim
