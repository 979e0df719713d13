// Costs of an input pipeline from a model on a cluster: closed forms by hand, and what must hold
// whatever the sizes are.
#include "sim/input_pipeline/input_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/input_pipeline/dense_times.h"
#include "sim/input_pipeline/id_distribution.h"
#include "tests/errors.h"

namespace pipesim {
namespace {

using enum Kind;

// Of round numbers: a kernel or transfer takes 1 us to launch, memory moves 100 bytes a
// nanosecond. In a node all-reduces reach 20 bytes a nanosecond, the rest 10, with 4 us and 2 us of
// latency. Between nodes a device has half of a card, 1 byte a nanosecond.
Cluster small_cluster() {
  return parse_cluster(
      R"({"format":"pipesim-cluster","version":1,"name":"small","devices_per_node":2,"nodes":3,
          "device":{"name":"d","peak":{"fp32":"1TFLOP/s","bf16":"2TFLOP/s"},"memory":"1MiB",
                    "memory_bandwidth":"100GB/s","host_bandwidth":"1GB/s","host_latency":"5us",
                    "software":{"host_forward":"25us"}},
          "node":{"collectives":[{"ranks":2,"bandwidth":"20GB/s","gather_bandwidth":"10GB/s",
                                  "latency":"4us"}],"p2p_bandwidth":"10GB/s"},
          "network":{"cards_per_node":1,"card_bandwidth":"2GB/s","latency":"3us",
                     "rail_aligned":true}})",
      "small.json");
}

RecommendationModel two_tables() {
  RecommendationModel model{.name = "m"};
  model.dense_features = 2;
  model.bottom = {4};
  model.top = {1};
  model.tables = {{"a", 8, 4, 3, IdCount::fixed, 0}, {"b", 4, 4, 1, IdCount::uniform, 0}};
  return model;
}

const TableSharding rows{ShardingType::row_wise, {}};
const TableSharding copies{ShardingType::data_parallel, {}};
TableSharding whole_on(int rank) { return {ShardingType::table_wise, {rank}}; }
TableSharding columns_on(std::vector<int> ranks) {
  return {ShardingType::column_wise, std::move(ranks)};
}
TableSharding rows_in_node(int first) { return {ShardingType::table_row_wise, {first}}; }

constexpr std::int64_t batch = 1000;

InputCosts estimate(const TableSharding& a, const TableSharding& b, int ranks,
                    TableOptimizer optimizer = TableOptimizer::row_wise_adagrad) {
  return estimate_input(two_tables(), {{a, b}}, small_cluster(), ranks, batch, {}, optimizer);
}

std::string link_of(const InputCosts& costs, int rank, Kind kind) {
  const InputWork& work = costs.of(rank, kind);
  return work.links.size() == 1 ? costs.links[work.links[0]].name : "";
}

// ---- By hand

TEST(InputEstimate, BatchesAreCopiedFromTheHost) {
  const InputCosts costs = estimate(whole_on(0), whole_on(1), 2);
  EXPECT_EQ(costs.batch_size, batch);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(costs.of(rank, NEXT), (InputWork{100'000, 0, {}, 0}));
    // Two features and a label of 4 bytes, 3 + 1 ids and two lengths of 8; four tensors.
    const InputWork& copy = costs.of(rank, COPY);
    EXPECT_EQ(copy.bytes, batch * (3 * 4 + 4 * 8 + 2 * 8));
    EXPECT_EQ(copy.duration_ns, 5'000);
    EXPECT_EQ(copy.host_ns, 4'000);
    EXPECT_EQ(link_of(costs, rank, COPY), rank == 0 ? "host of rank 0" : "host of rank 1");
    EXPECT_EQ(costs.links[copy.links[0]].bytes_per_second, 1'000'000'000);
    // Read and written.
    EXPECT_EQ(costs.of(rank, PREPARE), (InputWork{1'200, 0, {}, 1'000}));
    EXPECT_EQ(costs.of(rank, READ), (InputWork{6'000, 0, {}, 0}));
    EXPECT_EQ(costs.of(rank, PREFETCH), InputWork());
  }
}

TEST(InputEstimate, IdsGoToTheOwnersOfTables) {
  const InputCosts costs = estimate(whole_on(0), whole_on(1), 2);
  const std::int64_t a = batch * (3 + 1) * 8;  // ids and lengths, from one rank
  const std::int64_t b = batch * (1 + 1) * 8;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(costs.of(rank, SPLITS).bytes, 24);
    EXPECT_EQ(costs.of(rank, SPLITS).duration_ns, 2'000);
    EXPECT_EQ(link_of(costs, rank, IDS), rank == 0 ? "rank 0 in its node" : "rank 1 in its node");
    EXPECT_EQ(costs.links[costs.of(rank, IDS).links[0]].bytes_per_second, 10'000'000'000);
    // One gets those of a, the other sends them; the busier way counts.
    EXPECT_EQ(costs.of(rank, IDS).bytes, a);
    EXPECT_EQ(costs.of(rank, IDS).host_ns, 4'000);
  }
  // Two all-to-alls; what is sent and what is owned is read and written once more.
  EXPECT_EQ(costs.of(0, IDS).duration_ns, 4'000 + 2 * (a + b + 2 * a) / 100);
  EXPECT_EQ(costs.of(1, IDS).duration_ns, 4'000 + 2 * (a + b + 2 * b) / 100);
  EXPECT_EQ(costs.holdings[0].ids_bytes, 2 * a);
  EXPECT_EQ(costs.holdings[1].ids_bytes, 2 * b);
}

TEST(InputEstimate, RowsAreReadAndStepAtTheRateOfMemory) {
  for (const TableOptimizer optimizer : {TableOptimizer::sgd, TableOptimizer::row_wise_adagrad}) {
    const InputCosts costs = estimate(whole_on(0), whole_on(1), 2, optimizer);
    const std::int64_t ids = 2 * batch * 3;  // of both ranks' samples, for a
    EXPECT_EQ(costs.of(0, LOOKUP),
              (InputWork{(ids * (16 + 8) + 2 * batch * 16) / 100, 0, {}, 1'000}));
    // A gradient, the row twice, four passes of the sort; the state twice.
    const std::int64_t state = optimizer == TableOptimizer::sgd ? 0 : 8;
    EXPECT_EQ(costs.of(0, UPDATE), (InputWork{ids * (48 + 32 + state) / 100, 0, {}, 3'000}));
    EXPECT_EQ(costs.of(1, UPDATE), (InputWork{ids / 3 * (48 + 32 + state) / 100, 0, {}, 3'000}));
    EXPECT_EQ(costs.holdings[0].always.tables, 8 * 4 * 4);
    EXPECT_EQ(costs.holdings[0].always.optimizer, optimizer == TableOptimizer::sgd ? 0 : 8 * 4);
    // Sent: rows of all samples; got: of its own, of both tables.
    EXPECT_EQ(costs.holdings[0].pooled_bytes, 2 * batch * 16 + 2 * batch * 16);
  }
}

TEST(InputEstimate, DensePartIsProductsAndBytes) {
  const InputCosts costs = estimate(whole_on(0), whole_on(1), 2);
  const auto ns = [](double bytes) { return bytes / 100; };
  const auto product = [&](double n, double rows_, double columns, double inner) {
    const double bytes = 4 * n * (rows_ * inner + inner * columns + rows_ * columns);
    return std::max(ns(bytes), 2 * n * rows_ * columns * inner / 1000);
  };
  const double n = batch;
  const auto expect = [&](Kind kind, double time, int kernels) {
    EXPECT_EQ(costs.of(0, kind).duration_ns, std::llround(time)) << kind_name(kind);
    EXPECT_EQ(costs.of(0, kind).host_ns, kernels * 1'000) << kind_name(kind);
    EXPECT_EQ(costs.of(0, kind), costs.of(1, kind)) << kind_name(kind);
  };
  // Two features to four numbers, then a ReLU.
  expect(BOTTOM, product(1, n, 4, 2) + ns(8 * 4 * n), 2);
  // The weight's gradient, with parts of the sum over samples where that is faster; the bias's; the
  // ReLU's. Cutting it only adds bytes here, since bytes are what takes long.
  expect(BOTTOM_BACKWARD, product(1, 4, 2, n) + ns(4 * 4 * n) + ns(12 * 4 * n), 3);
  // Three vectors of four numbers side by side, all their products, one of each pair and the
  // bottom's output, seven numbers to one, the loss.
  expect(TOP,
         ns(8 * 12 * n) + product(n, 3, 3, 4) + ns(8 * 7 * n) + product(1, n, 1, 7) + ns(12 * n),
         6);
  expect(TOP_BACKWARD,
         ns(12 * n) + product(1, 1, 7, n) + product(1, n, 7, 1) + ns(4 * n) + ns(4 * (7 + 9) * n) +
             2 * product(n, 3, 4, 3) + ns(12 * 12 * n) + ns(8 * 12 * n),
         9);
  // 12 parameters below, 8 above.
  expect(ZERO_GRAD, ns(4 * 20), 1);
  expect(DENSE_STEP, ns(12 * 20), 1);
  EXPECT_EQ(costs.holdings[0].always.dense, 2 * 4 * 20);
  EXPECT_EQ(costs.holdings[0].activation_bytes, 4 * batch * (4 + 12 + 7 + 1));
  EXPECT_EQ(costs.holdings[0].batch_bytes, costs.of(0, COPY).bytes);
}

// A weight's gradient of one tile would keep one of eight multiprocessors busy; cut over samples it
// keeps all of them.
TEST(InputEstimate, SumsOverSamplesAreSharedByMultiprocessors) {
  DeviceSpec device;
  device.flops_per_second[static_cast<std::size_t>(Precision::fp32)] = 1e12;
  device.memory_bytes_per_second = 1'000'000'000'000'000;
  device.multiprocessors = 8;
  device.matmul.tiles = {{64, 64, 1}};
  RecommendationModel model = two_tables();
  model.dense_features = 64;
  model.bottom = {64};
  const double seconds =
      dense_times(model, device, Precision::fp32, 1 << 16).bottom_backward.seconds;
  const double alone = 2.0 * 64 * 64 * (1 << 16) / 1e12;
  EXPECT_GT(seconds, alone);
  EXPECT_LT(seconds, 1.001 * alone);
}

TEST(InputEstimate, DenseGradientsAreSummedInBuckets) {
  const InputCosts costs = estimate(whole_on(0), whole_on(1), 2);
  // 2 (2 - 1) / 2 of the bytes at 20 bytes a nanosecond: half as many of a link of 10.
  EXPECT_EQ(costs.of(0, REDUCE_TOP), (InputWork{4'000, 8 * 4 / 2, {1}, 1'000}));
  EXPECT_EQ(costs.of(0, REDUCE_BOTTOM), (InputWork{4'000, 12 * 4 / 2, {1}, 1'000}));
  EXPECT_EQ(costs.links[1].name, "rank 0 in its node");
  InputSoftware software;
  software.bucket_bytes = 20;
  const InputCosts cut = estimate_input(two_tables(), {{whole_on(0), whole_on(1)}}, small_cluster(),
                                        2, batch, software, TableOptimizer::sgd);
  EXPECT_EQ(cut.of(0, REDUCE_TOP), (InputWork{2 * 4'000, 16, {1}, 2'000}));
  EXPECT_EQ(cut.of(0, REDUCE_BOTTOM), (InputWork{3 * 4'000, 24, {1}, 3'000}));
}

TEST(InputEstimate, PooledRowsGoBack) {
  const std::int64_t pooled = batch * 4 * 4;  // of one table, for one rank
  const InputCosts whole = estimate(whole_on(0), whole_on(1), 2);
  const InputCosts one_sided = estimate(whole_on(0), whole_on(0), 2);
  const InputCosts columns = estimate(columns_on({1, 0}), columns_on({0, 1}), 2);
  const InputCosts by_rows = estimate(rows, rows, 2);
  const InputCosts mixed = estimate(rows, whole_on(1), 2);
  for (const Kind kind : {OUTPUT, OUTPUT_BACKWARD}) {
    for (const int rank : {0, 1}) {
      EXPECT_EQ(whole.of(rank, kind).bytes, pooled);
      EXPECT_EQ(whole.of(rank, kind).duration_ns, 2'000);
      EXPECT_EQ(whole.of(rank, kind).host_ns, 1'000);
      EXPECT_EQ(one_sided.of(rank, kind).bytes, 2 * pooled);
      EXPECT_EQ(columns.of(rank, kind).bytes, 2 * pooled / 2);
      // Halves of what both ranks' samples have, of both tables.
      EXPECT_EQ(by_rows.of(rank, kind).bytes, 2 * pooled);
      EXPECT_EQ(by_rows.of(rank, kind).duration_ns, 2'000);
      // One after the other: table b is sent by rank 1 and got by rank 0.
      EXPECT_EQ(mixed.of(rank, kind).bytes, pooled + pooled);
      EXPECT_EQ(mixed.of(rank, kind).duration_ns, 4'000);
      EXPECT_EQ(mixed.of(rank, kind).host_ns, 2'000);
    }
  }
}

TEST(InputEstimate, CopiesAreSummedUpBackward) {
  const InputCosts costs = estimate(copies, copies, 2);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(costs.of(rank, IDS).bytes, 0);
    EXPECT_EQ(costs.of(rank, OUTPUT), InputWork());
    // All of both tables, at the rate of all-reduces.
    EXPECT_EQ(costs.of(rank, OUTPUT_BACKWARD).bytes, (8 + 4) * 16 / 2);
    EXPECT_EQ(costs.of(rank, OUTPUT_BACKWARD).duration_ns, 4'000);
    // Its own samples alone.
    EXPECT_EQ(costs.of(rank, LOOKUP).duration_ns, (4 * batch * (16 + 8) + 2 * batch * 16) / 100);
    // All rows step: cleared, read; the row read and written, and its state; and each id's
    // gradient is read and added.
    EXPECT_EQ(costs.of(rank, UPDATE).duration_ns,
              std::llround((12 * (4 * 16 + 8) + 4 * batch * 3 * 16) / 100.0));
    const InputHoldings& held = costs.holdings[static_cast<std::size_t>(rank)];
    EXPECT_EQ(held.always.tables, 2 * 12 * 16);  // with gradients
    EXPECT_EQ(held.always.optimizer, 12 * 4);
    EXPECT_EQ(held.ids_bytes, 0);
    EXPECT_EQ(held.pooled_bytes, 2 * batch * 16);
  }
}

TEST(InputEstimate, NodesMeetOnCards) {
  // Ranks 0 and 1 share a card, ranks 2 and 3 another.
  const InputCosts costs = estimate(whole_on(0), whole_on(3), 4);
  const std::int64_t pooled = batch * 16;
  // Rank 0 sends two ranks of the other node, and gets from one; at 1 byte a nanosecond that
  // takes longer than what it sends inside.
  EXPECT_EQ(costs.of(0, OUTPUT).bytes, 2 * pooled);
  EXPECT_EQ(link_of(costs, 0, OUTPUT), "node 0 card 0");
  EXPECT_EQ(link_of(costs, 1, OUTPUT), "node 0 card 0");
  EXPECT_EQ(link_of(costs, 2, OUTPUT), "node 1 card 0");
  EXPECT_EQ(costs.of(1, OUTPUT).bytes, pooled);
  EXPECT_EQ(costs.of(0, OUTPUT).links, costs.of(1, OUTPUT).links);
  EXPECT_EQ(costs.links[costs.of(0, OUTPUT).links[0]].bytes_per_second, 2'000'000'000);
  // A step between nodes and one each way inside.
  EXPECT_EQ(costs.of(0, OUTPUT).duration_ns, 3'000 + 2 * 2'000);
}

TEST(InputEstimate, RowsWithinANodeAreSummedThere) {
  const InputCosts costs = estimate(rows_in_node(0), copies, 4);
  const std::int64_t pooled = batch * 16;
  for (const int rank : {0, 1}) {
    // Each has the sums of half of all samples, and sends those of two of the four ranks.
    EXPECT_EQ(costs.of(rank, OUTPUT).bytes, pooled);
    EXPECT_EQ(link_of(costs, rank, OUTPUT), "node 0 card 0");
    // A reduce-scatter inside, then an all-to-all over nodes.
    EXPECT_EQ(costs.of(rank, OUTPUT).duration_ns, 2'000 + 7'000);
    EXPECT_EQ(costs.of(rank, OUTPUT).host_ns, 2'000);
  }
  for (const int rank : {2, 3}) {
    EXPECT_EQ(costs.of(rank, OUTPUT).bytes, pooled);
    EXPECT_EQ(costs.of(rank, OUTPUT).duration_ns, 7'000);
    EXPECT_EQ(costs.holdings[static_cast<std::size_t>(rank)].ids_bytes, 0);
  }
  // On two ranks the node is all there is: as row-wise, but for the empty all-to-all.
  EXPECT_EQ(estimate(rows_in_node(0), copies, 2).of(0, OUTPUT).bytes,
            estimate(rows, copies, 2).of(0, OUTPUT).bytes);
}

TEST(InputEstimate, OneRankExchangesNothing) {
  const InputCosts costs = estimate(whole_on(0), rows, 1);
  for (const Kind kind : input_kinds) {
    if (!is_meeting(kind)) continue;
    EXPECT_EQ(costs.of(0, kind).bytes, 0);
    EXPECT_TRUE(costs.of(0, kind).links.empty());
  }
  EXPECT_EQ(costs.of(0, OUTPUT).duration_ns, 0);
}

// ---- Skew

// The ids that ranks get by rows are those that the generator draws, within five standard
// deviations.
TEST(InputEstimate, PopularRowsMakeRanksUneven) {
  RecommendationModel model = two_tables();
  model.tables[0].rows = 50'000;
  model.tables[0].skew = 1.1;
  InputSoftware software;
  software.seed = 5;
  const InputCosts costs = estimate_input(model, {{rows, copies}}, small_cluster(), 4, batch,
                                          software, TableOptimizer::sgd);
  const IdDistribution distribution(model.tables[0], 0, software.seed);
  std::vector<std::int64_t> ids;
  constexpr int rounds = 10;
  for (int sample = 0; sample < rounds * 4 * batch; ++sample) distribution.append(sample, ids);
  std::vector<double> drawn(4, 0);
  for (const std::int64_t id : ids) {
    drawn[static_cast<std::size_t>(part_of_row(50'000, 4, id))] += 1.0 / rounds;
  }
  double least = 1e9;
  double most = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    // Of each sample a length, and 8 bytes an id.
    const double got =
        static_cast<double>(costs.holdings[rank].ids_bytes) / 8 - 4.0 * static_cast<double>(batch);
    EXPECT_NEAR(got, drawn[rank], 5 * std::sqrt(drawn[rank] / rounds));
    least = std::min(least, got);
    most = std::max(most, got);
  }
  EXPECT_GT(most, 1.2 * least);
}

TEST(InputEstimate, PrefetchBringsWhatTheCacheHasNot) {
  RecommendationModel model = two_tables();
  model.tables[0] = {"a", 1000, 4, 3, IdCount::fixed, 0};
  model.tables[1] = {"b", 1000, 4, 1, IdCount::fixed, 1};
  InputSoftware software;
  software.cached_share = 0.25;
  const InputCosts costs = estimate_input(model, {{whole_on(0), whole_on(1)}}, small_cluster(), 2,
                                          batch, software, TableOptimizer::row_wise_adagrad);
  // Of rows that are asked for alike, three quarters are missing; of the others, the tail.
  EXPECT_EQ(costs.of(0, PREFETCH).bytes, 2 * batch * 3 * 16 * 3 / 4);
  double all = 0;
  double tail = 0;
  for (int k = 1000; k > 0; --k) (k > 250 ? tail : all) += 1.0 / k;
  all += tail;
  EXPECT_NEAR(static_cast<double>(costs.of(1, PREFETCH).bytes), 2 * batch * 16 * tail / all, 1);
  EXPECT_EQ(link_of(costs, 1, PREFETCH), "host of rank 1");
  EXPECT_EQ(costs.holdings[0].always.tables, 250 * 16);
  EXPECT_EQ(costs.holdings[0].always.optimizer, 250 * 4);
}

// ---- Whatever the sizes are

// What all ranks send is what all get, ids and pooled rows are as many however tables are
// divided, and pieces hold each number once.
TEST(InputEstimate, SumsOverRanksDoNotDependOnThePlan) {
  const RecommendationModel model = *find_recommendation_model("dlrm-mini");
  const Cluster cluster = find_cluster("dgx-a100");
  const auto all_by = [&](const TableSharding& sharding) {
    return ShardingPlan{std::vector<TableSharding>(model.tables.size(), sharding)};
  };
  for (const int ranks : {2, 4, 16}) {
    std::vector<int> everyone;
    for (int rank = 0; rank < ranks; ++rank) everyone.push_back(rank);
    for (const ShardingPlan& plan :
         {default_sharding(model, ranks), all_by(rows), all_by(columns_on(everyone))}) {
      const InputCosts costs =
          estimate_input(model, plan, cluster, ranks, 512, {}, TableOptimizer::sgd);
      std::int64_t tables = 0;
      for (const InputHoldings& held : costs.holdings) tables += held.always.tables;
      EXPECT_EQ(tables, model.table_parameters() * 4);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_GT(costs.of(rank, OUTPUT).bytes, 0);
        EXPECT_EQ(costs.of(rank, OUTPUT).bytes, costs.of(rank, OUTPUT_BACKWARD).bytes);
      }
    }
    const InputCosts by_rows =
        estimate_input(model, all_by(rows), cluster, ranks, 512, {}, TableOptimizer::sgd);
    double ids = 0;
    for (const InputHoldings& held : by_rows.holdings) {
      ids += static_cast<double>(held.ids_bytes) / 8 -
             512.0 * ranks * static_cast<double>(model.tables.size());
    }
    EXPECT_NEAR(ids, 512.0 * ranks * (1 + 1 + 2 + 1 + 6 + 8 + 1 + 1), ranks);
  }
}

TEST(InputEstimate, FileOfAnEstimateReadsBack) {
  const RecommendationModel model = *find_recommendation_model("dlrm-dcnv2");
  const InputCosts costs =
      estimate_input(model, default_sharding(model, 16), find_cluster("dgx-h100"), 16, 4096, {},
                     TableOptimizer::row_wise_adagrad);
  EXPECT_EQ(parse_input_costs(to_json(costs), "again.json"), costs);
}

// ---- What can't be

TEST(InputEstimate, MemoryThatARankLacks) {
  const RecommendationModel model = *find_recommendation_model("dlrm-dcnv2");
  const Cluster cluster = find_cluster("dgx-h100");
  const std::vector<InputMemory> memory{{30'000'000'000, 0, 0, 0, 0},
                                        {80'000'000'000, 1'000'000'000, 0, 4'000'000'000, 5}};
  EXPECT_FALSE(find_memory_lack(memory, 85'000'000'005));
  const auto lack = find_memory_lack(memory, cluster.device.memory_bytes);
  ASSERT_TRUE(lack);
  EXPECT_EQ(lack->rank, 1);
  EXPECT_EQ(lack->bytes, 85'000'000'005 - cluster.device.memory_bytes);
  EXPECT_EQ(to_text(*lack, memory, model, default_sharding(model, 2), cluster),
            "rank 1 lacks 53.7 MiB: it needs 79.2 GiB and has 79.1 GiB; of "
            "its tables 'cat_9' takes most, 19.1 GiB; divide it over more ranks, or use smaller "
            "batches");
  ShardingPlan elsewhere = default_sharding(model, 1);
  EXPECT_EQ(to_text(*lack, memory, model, elsewhere, cluster),
            "rank 1 lacks 53.7 MiB: it needs 79.2 GiB and has 79.1 GiB; it "
            "holds no table; use smaller batches");
}

TEST(InputEstimate, WrongRequestsAreRefused) {
  const auto error = [](int ranks, Precision precision) {
    return testing::input_error_of([&] {
      InputSoftware software;
      software.precision = precision;
      estimate_input(two_tables(), {{copies, copies}}, small_cluster(), ranks, batch, software,
                     TableOptimizer::sgd);
    });
  };
  EXPECT_EQ(error(7, Precision::fp32),
            "7 ranks need as many devices, but small has 3 nodes of 2; use fewer, or a larger "
            "cluster");
  EXPECT_EQ(error(2, Precision::tf32),
            "--precision tf32: d gives no rate for it; there are fp32, bf16");
  EXPECT_EQ(error(2, Precision::bf16),
            "--precision bf16: numbers of a recommendation model are float32; give fp32 or tf32");
  EXPECT_EQ(testing::input_error_of([] {
              estimate_input(two_tables(), {{copies, copies}}, find_cluster("laptop"), 2, batch, {},
                             TableOptimizer::sgd);
            }),
            "2 ranks need as many devices, but laptop has 1 node of 1; use fewer, or a larger "
            "cluster");
}

}  // namespace
}  // namespace pipesim
