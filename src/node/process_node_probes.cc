// The part of ProcessNode that asks containers how they are.
#include "node/process_node.h"
#include "node/process_node_impl.h"

namespace basalt::node {

void ProcessNode::run_probes(PodWork& work, rt::Instant& wake_at) {
  (void)work;
  (void)wake_at;
}

}  // namespace basalt::node
