// The names of Hugging Face's ViT and DeiT; timm's are ours.
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const WeightRules kVitNames = weight_rules(
    {
        {"embeddings.cls_token", "cls_token"},
        {"embeddings.distillation_token", "dist_token"},
        {"embeddings.position_embeddings", "pos_embed"},
        {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
        {"layernorm.", "norm."},
        {"(classifier|cls_classifier).", "head."},
        {"distillation_classifier.", "head_dist."},
    },
    vision_block_rules("(encoder.layer|layers).*.", "blocks.*."));

[[maybe_unused]] const bool hugging_face_deit =
    weight_namings().add({.name = "Hugging Face DeiT",
                          .file = __FILE__,
                          .markers = {"deit.embeddings.cls_token"},
                          .prefix = "deit.",
                          .rules = kVitNames});
[[maybe_unused]] const bool hugging_face_vit = weight_namings().add({.name = "Hugging Face ViT",
                                                                     .file = __FILE__,
                                                                     .markers = {"embeddings.cls_token"},
                                                                     .prefix = "vit.",
                                                                     .rules = kVitNames});

}  // namespace
}  // namespace saccade
