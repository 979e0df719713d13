#include "exec/transport/collectives.h"

#include <algorithm>

namespace pipesim::exec {
namespace {

enum Tag : int { size_tag, content_tag, exchange_tag };
static_assert(exchange_tag < clock_tag && clock_tag < first_free_tag);

void send_all(Transport& transport, int to, std::span<const std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  transport.wait(transport.send(to, size_tag, std::as_bytes(std::span(&size, 1))));
  for (std::size_t at = 0; at < bytes.size(); at += largest_piece) {
    const std::size_t piece = std::min(largest_piece, bytes.size() - at);
    transport.wait(transport.send(to, content_tag, bytes.subspan(at, piece)));
  }
}

Bytes receive_all(Transport& transport, int from) {
  std::int64_t size = 0;
  transport.wait(transport.receive(from, size_tag, std::as_writable_bytes(std::span(&size, 1))));
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::size_t at = 0; at < bytes.size(); at += largest_piece) {
    const std::size_t piece = std::min(largest_piece, bytes.size() - at);
    transport.wait(transport.receive(from, content_tag, std::span(bytes).subspan(at, piece)));
  }
  return bytes;
}

}  // namespace

std::vector<Bytes> gather(Transport& transport, std::span<const std::byte> own) {
  if (transport.rank() != 0) {
    send_all(transport, 0, own);
    return {};
  }
  std::vector<Bytes> all{Bytes(own.begin(), own.end())};
  for (int rank = 1; rank < transport.ranks(); ++rank) all.push_back(receive_all(transport, rank));
  return all;
}

Bytes broadcast(Transport& transport, Bytes bytes) {
  if (transport.rank() != 0) return receive_all(transport, 0);
  for (int rank = 1; rank < transport.ranks(); ++rank) send_all(transport, rank, bytes);
  return bytes;
}

void barrier(Transport& transport) {
  gather(transport, {});
  broadcast(transport, {});
}

void exchange(Transport& transport, int other, std::span<const std::byte> own,
              std::span<std::byte> theirs) {
  for (std::size_t at = 0; at < own.size(); at += largest_piece) {
    const std::size_t piece = std::min(largest_piece, own.size() - at);
    const Ticket receive = transport.receive(other, exchange_tag, theirs.subspan(at, piece));
    const Ticket send = transport.send(other, exchange_tag, own.subspan(at, piece));
    transport.wait(receive);
    transport.wait(send);
  }
}

}  // namespace pipesim::exec
