// Shards that take turns: their sums and gathers, and that an error of one ends all.
#include "exec/run/shards_in_turn.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/devices.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

using Keeps = TensorGroup::Keeps;

class ShardsTest : public ::testing::Test {
 protected:
  Tensor take(std::vector<float> values) {
    Tensor tensor = pool_.take(std::ssize(values), Use::activations);
    device_->upload(tensor.memory(), values.data(), tensor.bytes());
    return tensor;
  }
  std::vector<float> read(const Tensor& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.size()));
    device_->download(values.data(), tensor.memory(), tensor.bytes());
    return values;
  }

  std::unique_ptr<Device> device_ = testing::make_test_device();
  Pool pool_{*device_};
};

TEST_F(ShardsTest, SumInTheirOrderAndGather) {
  for (const int count : {2, 3, 4}) {
    ShardsInTurn shards(*device_, count);
    std::atomic<int> at_work = 0;
    for (int again = 0; again < 2; ++again) {
      shards.run([&](int shard) {
        EXPECT_EQ(++at_work, 1);
        // In this order the large ones cancel out before the small one is lost.
        const float value = shard == 0 ? 1e8F : shard == 1 ? -1e8F : 1.0F;
        const Tensor sum = take({value, static_cast<float>(shard)});
        TensorGroup& group = *shards.group(shard);
        EXPECT_EQ(group.ranks(), count);
        EXPECT_EQ(group.rank(), shard);
        --at_work;
        group.start_sum(sum.all(), Keeps::all);
        group.finish_sum();
        EXPECT_EQ(++at_work, 1);
        const float others = static_cast<float>(count * (count - 1) / 2);
        EXPECT_EQ(read(sum), (std::vector<float>{static_cast<float>(count - 2), others}));
        std::vector<float> own(static_cast<std::size_t>(count), -1);
        own[static_cast<std::size_t>(shard)] = static_cast<float>(10 * shard);
        const Tensor all = take(own);
        --at_work;
        group.all_gather(all.all());
        EXPECT_EQ(++at_work, 1);
        for (int i = 0; i < count; ++i)
          own[static_cast<std::size_t>(i)] = static_cast<float>(10 * i);
        EXPECT_EQ(read(all), own);
        --at_work;
      });
    }
  }
}

TEST_F(ShardsTest, OneAloneHasNoGroup) {
  ShardsInTurn shards(*device_, 1);
  EXPECT_EQ(shards.group(0), nullptr);
  int runs = 0;
  shards.run([&](int shard) { runs += 1 + shard; });
  EXPECT_EQ(runs, 1);
}

// Before the exchange, and behind it, when others may have ended.
TEST_F(ShardsTest, AnErrorOfOneEndsAll) {
  for (const int failing : {0, 1, 3}) {
    for (const bool late : {false, true}) {
      ShardsInTurn shards(*device_, 4);
      std::atomic<int> begun = 0;
      const auto work = [&](int shard) {
        ++begun;
        const Tensor numbers = take({1, 2, 3, 4});
        if (shard == failing && !late) throw work_error("no more");
        shards.group(shard)->all_gather(numbers.all());
        if (shard == failing) throw work_error("no more");
      };
      EXPECT_THROW(shards.run(work), Error) << failing << late;
      EXPECT_EQ(begun, late ? 4 : failing + 1) << failing << late;
      EXPECT_NO_THROW(shards.run([](int) {})) << "and it can go on";
    }
  }
}

}  // namespace
}  // namespace pipesim::exec
