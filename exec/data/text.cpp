#include "exec/data/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/device/random.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::exec {

extern const char* const primer;  // the built-in file primer.txt
extern const std::size_t primer_size;

Text Text::built_in() { return {"built-in primer", std::string(primer, primer_size)}; }

Text Text::read(const std::string& path) {
  try {
    return {path, read_file(path)};
  } catch (const Error& error) {
    throw input_error(fmt::format("--data: {}", error.what()));
  }
}

void Text::check(std::int64_t sequence, std::int64_t vocabulary) const {
  const auto size = static_cast<std::int64_t>(bytes_->size());
  if (size <= sequence) {
    throw input_error(
        fmt::format("--data: {} has {}, but a sequence of {} and the token after it need {}; give "
                    "a longer text or a shorter --sequence-length",
                    quote(name_), plural(size, "byte"), sequence, sequence + 1));
  }
  const auto largest = std::ranges::max_element(
      *bytes_, {}, [](char byte) { return static_cast<unsigned char>(byte); });
  const int token = static_cast<unsigned char>(*largest);
  if (token >= vocabulary) {
    throw input_error(fmt::format(
        "--data: byte {} of {} is {}, but the model's vocabulary_size is {}; tokens are bytes, so "
        "256 is always enough",
        largest - bytes_->begin(), quote(name_), token, vocabulary));
  }
}

Sample draw_sample(const Text& text, std::uint64_t seed, std::uint32_t step,
                   std::int64_t first_sequence, std::int64_t batch, std::int64_t sequence) {
  const std::string_view bytes = text.bytes();
  const RandomKey key{.seed = seed, .purpose = Purpose::batch, .step = step};
  Sample sample;
  for (std::int64_t i = 0; i < batch; ++i) {
    const RandomWords words = random_words(key, static_cast<std::uint64_t>(first_sequence + i));
    const std::uint64_t drawn = std::uint64_t{words.word[0]} << 32 | words.word[1];
    const std::uint64_t places = bytes.size() - static_cast<std::uint64_t>(sequence);
    const std::string_view piece =
        bytes.substr(drawn % places, static_cast<std::size_t>(sequence) + 1);
    for (std::size_t t = 0; t + 1 < piece.size(); ++t) {
      sample.tokens.push_back(static_cast<unsigned char>(piece[t]));
      sample.targets.push_back(static_cast<unsigned char>(piece[t + 1]));
    }
  }
  return sample;
}

}  // namespace pipesim::exec
