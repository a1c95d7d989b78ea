// RK3576's entry in the table of register maps.
#include <iterator>

#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576/decode.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace cna = regs::rk3576::cna;

constexpr Decoder kDecoder = {&decode_dpu, &decode_cna, &decode_core, &separate_pairs};

// Programs of the vendor's compiler for the second core differ from those for the first in these
// fields of CNA, on every layer compared.
constexpr SecondCoreField kSecondCore[] = {
    {cna::cbuf_con1::kSecondCore, SecondCoreField::Step::kOne},
    {cna::cbuf_con0::kWeightFirstBank, SecondCoreField::Step::kBanks},
    {cna::cbuf_con1::kEndBank, SecondCoreField::Step::kBanks},
    {cna::cbuf_con2::kWindowStart, SecondCoreField::Step::kEntries},
    {cna::cbuf_con3::kFetchStart, SecondCoreField::Step::kEntries},
    {cna::cbuf_con3::kDataEnd, SecondCoreField::Step::kEntries},
};

}  // namespace

const RegisterTable kRegisterTable = {std::begin(regs::rk3576::kRegisters),
                                      std::end(regs::rk3576::kRegisters),
                                      regs::rk3576::dpu::dst_base_addr::kOffset,
                                      true,
                                      &kDecoder,
                                      {kSecondCore, std::size(kSecondCore)}};

}  // namespace rk3588::sim::rk3576
