/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The worst delay that other lanes cause to a high-priority packet at one port.
 *
 * A lane is high-priority when the High table gives it a weight, whatever the mode. Counted is what
 * a packet at the head of such a lane waits for while packets of lanes that are not high-priority
 * are sent; delays by other high-priority lanes and by VL15 are not. The lane itself may be idle
 * between packets (the worst case: its packet arrives just after another one has started), packets
 * are never preempted. For every high-priority lane h, with L the largest packet of a backlogged
 * lane of Low that is not high-priority:
 *  - both tables: one packet in flight, and one more for every limit's worth of what the other
 *    high-priority lanes send before the High table comes round to h:
 *    L (1 + floor(M / limit)), M = the largest sum of visits between two entries of h. Attained
 *    when no high-priority lane takes a turn of Low meanwhile, else an upper bound. With no limit
 *    (255) it is L, with limit 0 L (1 + the packets in M).
 *  - one table: the largest sum of visits of other lanes between two entries of h, exact.
 * A visit of an entry sends ceil(weight / packet) packets.
 */
#ifndef DUALPATH_SIM_VLARB_BLOCKED_H
#define DUALPATH_SIM_VLARB_BLOCKED_H

#include "sim/vlarb.h"

/* Bit mask of the high-priority lanes. */
uint32_t vlarb_high_lanes(const struct vlarb_config *config);

/* Bytes on the wire; packet_bytes[vl] = 0 for lanes that are idle. A high-priority lane that the
 * tables in force never serve is left out: it starves. 0 when there is no high-priority lane. */
uint64_t vlarb_blocked_bytes_max(const struct vlarb *a, const uint32_t packet_bytes[VLARB_LANES]);

#endif
