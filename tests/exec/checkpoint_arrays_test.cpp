// Arrays of checkpoints: which numbers a rank has, files of them, manifests.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "exec/checkpoint/hash.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/numbers.h"
#include "exec/checkpoint/reader.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/checkpoint/snapshot.h"
#include "tests/devices.h"
#include "tests/errors.h"
#include "tests/files.h"

namespace pipesim {
namespace {

using exec::CheckpointFile;
using exec::Manifest;
using exec::Numbers;
using exec::Range;
using exec::SavedArray;
using testing::error_of;
using testing::input_error_of;
using testing::no_error;

// What a rank could have of an array of so many numbers, of rows that have `width`.
Numbers random_numbers(std::mt19937& random, std::int64_t rows, std::int64_t width) {
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  const auto range_in = [&](std::int64_t size) {
    const std::int64_t begin = pick(0, size - 1);
    return Range{begin, pick(begin + 1, size)};
  };
  Numbers numbers;
  if (pick(0, 2) == 0) {
    numbers = Numbers::all(rows * width);
  } else {
    numbers.shard.width = width;
    numbers.shard.rows = range_in(rows);
    std::int64_t at = 0;
    while (numbers.shard.columns.empty() || (at < width && pick(0, 1) == 0)) {
      Range columns = range_in(width - at);
      numbers.shard.columns.push_back({columns.begin + at, columns.end + at});
      at += columns.end;
    }
  }
  numbers.range = range_in(numbers.shard.size());
  return numbers;
}

// The places within the whole, one by one.
std::vector<std::int64_t> places_of(const Numbers& numbers) {
  std::vector<std::int64_t> all;
  for (std::int64_t row = numbers.shard.rows.begin; row < numbers.shard.rows.end; ++row) {
    for (const Range& columns : numbers.shard.columns) {
      for (std::int64_t at = columns.begin; at < columns.end; ++at) {
        all.push_back(row * numbers.shard.width + at);
      }
    }
  }
  return {all.begin() + numbers.range.begin, all.begin() + numbers.range.end};
}

TEST(CheckpointNumbers, CommonOnesAreCopiedAndAdded) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::int64_t rows = 1 + trial % 5;
    const std::int64_t width = 1 + trial % 9;
    const Numbers from = random_numbers(random, rows, width);
    const Numbers to = random_numbers(random, rows, width);
    const std::vector<std::int64_t> sources = places_of(from);
    const std::vector<std::int64_t> places = places_of(to);
    std::map<std::int64_t, float> whole;
    std::vector<float> source;
    for (const std::int64_t place : sources) {
      source.push_back(static_cast<float>(100 + place));
      whole[place] = source.back();
    }
    std::vector<float> copied(places.size(), -1);
    std::vector<float> added(places.size(), 1);
    std::vector<float> expected_copy = copied;
    std::vector<float> expected_sum = added;
    std::int64_t expected = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto found = whole.find(places[i]);
      if (found == whole.end()) continue;
      ++expected;
      expected_copy[i] = found->second;
      expected_sum[i] += found->second;
    }
    EXPECT_EQ(copy_common(from, source.data(), to, copied.data()), expected);
    EXPECT_EQ(add_common(from, source.data(), to, added.data()), expected);
    EXPECT_EQ(copied, expected_copy) << to_text(from) << " to " << to_text(to);
    EXPECT_EQ(added, expected_sum);
  }
}

TEST(CheckpointNumbers, TextsAreReadBack) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 1000; ++trial) {
    const Numbers numbers = random_numbers(random, 1 + trial % 5, 1 + trial % 7);
    const auto back = exec::parse_numbers(to_text(numbers));
    ASSERT_TRUE(back) << to_text(numbers);
    EXPECT_EQ(places_of(*back), places_of(numbers)) << to_text(numbers);
  }
  for (const char* text :
       {"", "[]", "[1]", "[4:4]", "[5:4]", "[-1:4]", "[1:2", "1:2]", "[a:b]", "[0:1;0:1]",
        "[4;0:1;0:2;0:3]", "[4;0:1;0:5;0:1]", "[4;0:1;2:3,1:2;0:1]", "[4;1:1;0:2;0:1]",
        "[9999999999999999999:9]", "[1125899906842624;0:1125899906842624;0:2;0:1]"}) {
    EXPECT_FALSE(exec::parse_numbers(text)) << text;
  }
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Safetensors, AreReadBack) {
  const std::vector<exec::TensorEntry> entries{
      {"a", "F32", {2, 3}}, {"none", "I64", {0}}, {"b[0:1]", "U8", {5}}, {"scalar", "F64", {}}};
  const std::string header = tensor_header(entries, {{"made by", "a \"test\""}});
  EXPECT_EQ(header.size() % 64, 0U);
  const std::string file = header + std::string(24 + 0 + 5 + 8, 'x');
  const exec::TensorFile found = exec::read_tensor_header(as_bytes(file), "f");
  EXPECT_EQ(found.header_bytes, static_cast<std::int64_t>(header.size()));
  EXPECT_EQ(found.metadata.at("made by"), "a \"test\"");
  ASSERT_EQ(found.entries.size(), 4U);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(found.entries[i].name, entries[i].name);
    EXPECT_EQ(found.entries[i].shape, entries[i].shape);
    EXPECT_EQ(found.entries[i].begin, at);
    at = found.entries[i].end;
  }
}

std::string file_with(const std::string& json, std::size_t numbers) {
  const auto size = static_cast<std::uint64_t>(json.size());
  return std::string(reinterpret_cast<const char*>(&size), 8) + json + std::string(numbers, 'x');
}

TEST(Safetensors, WhatIsNoneIsRefused) {
  const auto refusal = [](const std::string& file) {
    return input_error_of([&] { exec::read_tensor_header(as_bytes(file), "f"); });
  };
  const auto holds = [&](const std::string& file, const std::string& part) {
    EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file);
  };
  holds("short", "has no header");
  holds(std::string(8, '\xff'), "its header has 18446744073709551615 bytes, and the file 8");
  holds(file_with("[]", 0), "is not a JSON object");
  holds(file_with(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4),
        "not a known type");
  holds(file_with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
        "must be 8 bytes");
  holds(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4), "data_offsets");
  holds(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
        "does not begin");
  holds(file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8),
        "4 bytes are no");
  holds(
      file_with(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      "more numbers");
  holds(file_with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0), "shape");
  holds(file_with(R"({"__metadata__":[]})", 0), "object of texts");
  EXPECT_EQ(refusal(file_with("{}", 0)), no_error);
}

Manifest some_manifest() {
  return {20,
          R"({"kind":"pipeline","losses":[0.1,2]})",
          {{"rank-0000.safetensors", 12, exec::hash_of(std::string("a"))},
           {"rank-0001.safetensors", 0, exec::hash_of(std::string())}}};
}

TEST(CheckpointManifest, IsReadBackAndFindsEveryAlteredByte) {
  const Manifest manifest = some_manifest();
  const std::string text = to_text(manifest);
  const Manifest back = exec::parse_manifest(text, "m");
  EXPECT_EQ(back.iteration, 20);
  EXPECT_EQ(back.training, manifest.training);
  EXPECT_EQ(back.files, manifest.files);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string altered = text;
      altered[i] = static_cast<char>(altered[i] ^ (1 << bit));
      EXPECT_NE(input_error_of([&] { exec::parse_manifest(altered, "m"); }), no_error) << altered;
    }
    EXPECT_NE(input_error_of([&] { exec::parse_manifest(text.substr(0, i), "m"); }), no_error);
  }
}

TEST(CheckpointManifest, NamesNoFilesElsewhere) {
  for (const char* name : {"../x", "/etc/passwd", "", ".hidden"}) {
    Manifest manifest = some_manifest();
    manifest.files.front().name = name;
    const std::string error = input_error_of([&] { exec::parse_manifest(to_text(manifest), "m"); });
    EXPECT_NE(error.find("must be a file of this folder"), std::string::npos) << error;
  }
}

// XXH3 of nothing and of a text, as its own test vectors have them.
TEST(CheckpointHash, IsXxh3) {
  EXPECT_EQ(exec::hash_of(std::string()), "99aa06d3014798d86001c324468d497f");
  exec::Hasher hasher;
  const std::string text = "a checkpoint in three pieces";
  for (const auto& [at, size] : {std::pair(0, 3), {3, 11}, {14, 99}}) {
    hasher.add(
        as_bytes(text).subspan(static_cast<std::size_t>(at),
                               std::min<std::size_t>(static_cast<std::size_t>(size),
                                                     text.size() - static_cast<std::size_t>(at))));
  }
  EXPECT_EQ(hasher.text(), exec::hash_of(text));
}

TEST(CheckpointReader, PutsArraysTogether) {
  const testing::TemporaryFolder folder;
  const auto device = testing::make_test_device();
  std::vector<float> numbers(24);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  // Columns 0 and 3 of 6 x 4, and the others.
  const Numbers outer{{4, {0, 6}, {{0, 1}, {3, 4}}}, {0, 12}};
  const Numbers inner{{4, {0, 6}, {{1, 3}}}, {0, 12}};
  std::vector<std::vector<float>> parts;
  std::vector<CheckpointFile> files;
  for (const Numbers& own : {outer, inner}) {
    std::vector<float> part;
    for (const std::int64_t place : places_of(own)) {
      part.push_back(numbers[static_cast<std::size_t>(place)]);
    }
    exec::Snapshot snapshot;
    snapshot.take(*device,
                  {{"m", 24, own, {part.data(), 12, exec::Number::float32}},
                   {"n" + std::to_string(files.size()),
                    12,
                    Numbers::all(12),
                    {part.data(), 12, exec::Number::float32}}},
                  files.empty());
    files.push_back(snapshot.write(exec::machine_disk(), folder.path().string(),
                                   "part" + std::to_string(files.size())));
  }
  const exec::CheckpointReader reader(folder.path().string(), {0, "{}", files});
  EXPECT_EQ(reader.keys(), (std::vector<std::string>{"m", "n0", "n1"}));
  EXPECT_EQ(reader.keys("n"), (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(reader.size("m"), 24);
  std::vector<float> whole(24);
  reader.read("m", Numbers::all(24), whole.data());
  EXPECT_EQ(whole, numbers);
  const std::string error =
      input_error_of([&] { reader.read("n0", Numbers::all(13), whole.data()); });
  EXPECT_NE(error.find("has 12 of 13 numbers of 'n0'"), std::string::npos) << error;
}

}  // namespace
}  // namespace pipesim
