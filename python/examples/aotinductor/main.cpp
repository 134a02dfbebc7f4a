// Runs what export.py wrote, without Python: c++ -std=c++17 main.cpp, with PyTorch's include folders and libraries, and
// libdeformkit_torch.so. A program that is not linked with that loads it by dlopen() instead, before it loads a model.
#include <deformkit/torch.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

int main() {
    if (const char *error = deformkit_torch_register()) {
        std::cerr << error << '\n';
        return 1;
    }
    const c10::InferenceMode inference;
    std::ifstream file("tensors.pt", std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const c10::IValue saved = torch::jit::pickle_load(bytes);
    std::vector<at::Tensor> inputs;
    for (const c10::IValue &tensor : saved.toListRef()) {
        inputs.push_back(tensor.toTensor());
    }
    const at::Tensor expected = inputs.back();
    inputs.pop_back();

    torch::inductor::AOTIModelPackageLoader package("model.pt2");
    const at::Tensor output = package.run(inputs)[0];
    torch::jit::Module module = torch::jit::load("model.ts");
    const at::Tensor traced = module.forward({inputs.begin(), inputs.end()}).toTensor();
    for (const at::Tensor &result : {output, traced}) {
        std::cout << at::sub(result, expected).abs().max().item<float>() << '\n';
    }
}
