// The channels of a link (exec/device/link.h) that a training needs.
//
// They lead between ranks of a pipeline, of which each replica has one. Activations and
// gradients go by channels of their own: where both lead from one rank to the same
// other one, as in a V, neither waits for the other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/link.h"
#include "exec/run/training.h"
#include "exec/transport/linked.h"

namespace pipesim::exec {

// By which a SEND or RECV goes.
Channel channel_of(const Placement& placement, const Action& transfer);

// All of them, in the order in which they are to be opened. An input error
// where a rank receives the messages of a channel in another order than they
// are sent in: each would get another's. With the same order no program that
// finishes where receives are posted gets stuck: what stands before a message on
// its channel was sent, and its receive reached, before its own was.
std::vector<Channel> channels_of(const TrainingJob& training);

// All ranks of `control` take part: links the devices of each pipeline, and replicas for what
// they gather, and for gradients where the link is to add them up.
std::unique_ptr<LinkedTransport> link_devices(Transport& control, Device& device,
                                              const LinkLibrary& library, const std::string& name,
                                              const TrainingJob& training);

// Waits until the device has passed the mark, as long as patience lasts: then
// TimedOut, "waited 5 s for <what>".
void wait_on_link(Device& device, DeviceLink& link, Mark mark,
                  std::optional<std::chrono::nanoseconds> patience, const std::string& what);

}  // namespace pipesim::exec
