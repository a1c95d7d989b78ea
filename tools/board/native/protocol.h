// Messages between the part inside QEMU (qemu_npu.c) and the NPU's process, little-endian.
//
// QEMU connects twice: one socket for requests, one for changes of interrupt lines. On the first it
// sends one byte with the descriptor of the guest's RAM (SCM_RIGHTS); the process answers with the
// number of windows (u64) and the windows. Then QEMU asks and the process answers, one at a time.
//
// Used by a C file of another licence: numbers and structures only. Apache-2.0.
#pragma once

#include <stdint.h>

enum { kBoardRead = 0, kBoardWrite = 1 };

// Guest physical memory that the process serves.
struct board_window {
  uint64_t address;
  uint64_t size;
};

struct board_request {
  uint32_t operation;
  uint32_t window;
  uint64_t offset;
  uint64_t value;
};

// Also what the second socket carries: the levels of all lines, the higher sequence number counts.
struct board_answer {
  uint64_t value;
  uint64_t sequence;
  uint32_t levels;
  uint32_t computes;  // whether the simulator is at work: the guest's clock waits
};
