// The text to train on: its bytes are the tokens.
//
// Sequences are drawn by counter, each by (seed, step, its number within the step), so that
// every rank finds the same ones in any layout. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim::exec {

class Text {
 public:
  // A primer on pipeline parallelism.
  static Text built_in();
  // Throws an input error if the file can't be read.
  static Text read(const std::string& path);

  const std::string& name() const { return name_; }
  std::string_view bytes() const { return *bytes_; }

  // Refuses a text from which no sequence can be drawn, or with a byte that
  // the vocabulary doesn't have.
  void check(std::int64_t sequence, std::int64_t vocabulary) const;

 private:
  Text(std::string name, std::string bytes)
      : name_(std::move(name)), bytes_(std::make_shared<std::string>(std::move(bytes))) {}

  std::string name_;
  std::shared_ptr<const std::string> bytes_;
};

// Sequences of a microbatch, both [batch x sequence]; a target is the byte after its token.
struct Sample {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};
Sample draw_sample(const Text& text, std::uint64_t seed, std::uint32_t step,
                   std::int64_t first_sequence, std::int64_t batch, std::int64_t sequence);

}  // namespace pipesim::exec
