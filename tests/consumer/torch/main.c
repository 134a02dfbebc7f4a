/* Of a program without PyTorch: the library loads, and says what it misses. */
#include <deformkit/torch.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const char *error = deformkit_torch_register();
    puts(error == NULL ? "registered" : error);
    return error == NULL || strstr(error, "has not loaded PyTorch 2.10 or newer") == NULL;
}
