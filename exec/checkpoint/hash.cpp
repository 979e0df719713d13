#include "exec/checkpoint/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace pipesim::exec {
namespace {

std::string digits_of(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct Hasher::State {
  XXH3_state_t hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }

Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Hasher::text() const { return digits_of(XXH3_128bits_digest(&state_->hash)); }

std::string hash_of(std::span<const std::byte> bytes) {
  return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string hash_of(std::string_view text) { return hash_of(std::as_bytes(std::span(text))); }

}  // namespace pipesim::exec
