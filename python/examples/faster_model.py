import torch
from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

import deformkit

backbone = ResNetConfig(
    embedding_size=16, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"]
)
model = DeformableDetrForObjectDetection(DeformableDetrConfig(backbone_config=backbone, encoder_layers=2)).eval()

done = deformkit.accelerate(model)
print(done)  # which modules were replaced, which were left alone, and why
with torch.no_grad():
    model(torch.rand(1, 3, 200, 300))
done.undo()
