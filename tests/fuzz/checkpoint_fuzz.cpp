// Any bytes as what checkpoints are made of: an Error, or what is written and read again unchanged.
// As a manifest, whose hash is put right first, as what it says of a training, as which numbers
// somebody has, whose common numbers are those of an oracle, and as a file of tensors, also one of
// a model's weights by Hugging Face's names.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/hash.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/numbers.h"
#include "exec/checkpoint/safetensors.h"
#include "exec/saved/checkpoint_facts.h"
#include "exec/saved/weight_file.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_manifest(std::string_view text) {
  std::string whole(text);
  if (!text.ends_with("\"\n}\n")) {  // what comes before the hash
    whole += ",\n  \"hash\": \"" + hash_of(text) + "\"\n}\n";
  }
  const Manifest manifest = parse_manifest(whole, "fuzz.json");
  const std::string written = to_text(manifest);
  const Manifest again = parse_manifest(written, "again");
  demand(again.files == manifest.files && to_text(again) == written);
  const CheckpointFacts facts = facts_of({"fuzz", manifest, false});
  demand(facts.step >= 0 && (!facts.layout || facts.layout->stages > 0));
}

void check_facts(std::string_view text) {
  const CheckpointFacts facts = facts_of({"fuzz", {1, std::string(text), {}}, false});
  demand(facts.model.has_value() == (facts.kind == TrainingKind::pipeline));
}

constexpr std::int64_t max_numbers = 4096;  // that are compared

std::vector<std::int64_t> places_in(const Numbers& numbers) {
  std::vector<std::int64_t> places;
  for (const Range& run : numbers.runs_in_whole()) {
    for (std::int64_t at = run.begin; at < run.end; ++at) places.push_back(at);
  }
  return places;
}

void check_numbers(std::string_view text) {
  const std::size_t end = text.find('\n');
  const auto from = parse_numbers(text.substr(0, end));
  if (!from || from->size() > max_numbers) return;
  const std::vector<std::int64_t> places = places_in(*from);
  demand(std::ssize(places) == from->size() && std::ranges::is_sorted(places));
  const auto again = parse_numbers(to_text(*from));
  demand(again && places_in(*again) == places);
  const auto to = parse_numbers(end == std::string_view::npos ? text : text.substr(end + 1));
  if (!to || to->size() > max_numbers) return;
  std::vector<float> source(places.size(), 1);
  std::vector<float> counts(static_cast<std::size_t>(to->size()));
  const std::int64_t common = add_common(*from, source.data(), *to, counts.data());
  std::int64_t expected = 0;
  const std::vector<std::int64_t> wanted = places_in(*to);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_there = std::ranges::binary_search(places, wanted[i]);
    demand(counts[i] == (is_there ? 1 : 0));
    expected += is_there ? 1 : 0;
  }
  demand(common == expected);
}

void check_tensors(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const TensorFile file = read_tensor_header(bytes, "fuzz.safetensors");
  for (const TensorEntry& entry : file.entries) {
    demand(entry.begin >= 0 && entry.end <= std::ssize(text) - file.header_bytes);
    demand(entry.bytes() == entry.numbers() * bytes_of_type(entry.type));
  }
  const std::string header = tensor_header(file.entries, file.metadata);
  const std::string numbers(text.substr(static_cast<std::size_t>(file.header_bytes)));
  const std::string again_text = header + numbers;
  const TensorFile again = read_tensor_header(std::as_bytes(std::span(again_text)), "again");
  demand(again.entries.size() == file.entries.size() && again.metadata == file.metadata);
}

// Of one block and few numbers, so that a small file can be all of it.
Model tiny_model(Architecture architecture) {
  Model model;
  model.shape_as(architecture);
  model.name = "tiny";
  model.blocks = 1;
  model.hidden_size = 2;
  model.heads = model.kv_heads = 1;
  model.mlp_size = 1;
  model.vocabulary_size = 2;
  model.max_sequence_length = 1;
  return model;
}

template <Architecture architecture>
void check_weights(std::string_view text) {
  static const Model model = tiny_model(architecture);
  const WeightArrays arrays = read_weights(std::as_bytes(std::span(text)), "fuzz", model);
  for (const PublishedTensor& tensor : published_tensors(model)) {
    demand(std::ssize(arrays.at(tensor.key)) == tensor.rows * tensor.width);
  }
}

}  // namespace
}  // namespace pipesim::exec

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto check :
       {exec::check_manifest, exec::check_facts, exec::check_numbers, exec::check_tensors,
        exec::check_weights<Architecture::gpt>, exec::check_weights<Architecture::llama>}) {
    try {
      check(text);
    } catch (const Error&) {
    }
  }
  return 0;
}
