#pragma once

// Chronicle turns committed writes into the story: what became of nodes, pods and attachments.

#include "sim/ground/ground.h"

namespace moonfence::sim {

// Listens to the ground's store from now on; the ground must outlive the store's last write.
void keep_chronicle(const Ground& ground);

}  // namespace moonfence::sim
