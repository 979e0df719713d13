#include "exec/transport/collectives.h"

namespace pipesim::exec {
namespace {

enum Tag : int { size_tag, content_tag, exchange_tag };
static_assert(exchange_tag < first_free_tag);

void send_all(Transport& transport, int to, std::span<const std::byte> bytes) {
  const std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
  transport.wait(transport.send(to, size_tag, bytes_of(size)));
  transport.wait(transport.send(to, content_tag, bytes));
}

Bytes receive_all(Transport& transport, int from) {
  std::vector<std::int64_t> size(1);
  transport.wait(transport.receive(from, size_tag, std::as_writable_bytes(std::span(size))));
  Bytes bytes(static_cast<std::size_t>(size[0]));
  transport.wait(transport.receive(from, content_tag, bytes));
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

Bytes exchange(Transport& transport, int other, std::span<const std::byte> own) {
  Bytes theirs(own.size());
  const Ticket receive = transport.receive(other, exchange_tag, theirs);
  const Ticket send = transport.send(other, exchange_tag, own);
  transport.wait(receive);
  transport.wait(send);
  return theirs;
}

}  // namespace pipesim::exec
