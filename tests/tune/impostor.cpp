// A library in front of the real one, whose gka forward is IMPOSTOR: for tests of what the tuner makes of bad candidates.
#include <deformkit/deformkit.h>
#include <unistd.h>

#include <csignal>

extern "C" deformkit_status deformkit_geometric_kernel_attention_forward(const DLTensor *, const DLTensor *, const DLTensor *,
                                                                         const DLTensor *, const DLTensor *, DLTensor *) {
    enum { kWrong, kCrash, kHang } kind = IMPOSTOR;
    if (kind == kCrash) {
        std::raise(SIGSEGV);
    }
    while (kind == kHang) {
        pause();
    }
    return DEFORMKIT_OK;  // nothing written
}
